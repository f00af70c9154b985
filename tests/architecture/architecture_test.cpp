// Holds every source file against the rules of the house.
#include <gtest/gtest.h>

#include "tests/architecture/rules.hpp"

namespace megatoken::architecture {
namespace {

const std::vector<Source>& sources() {
  static const auto all = project_sources(MEGATOKEN_SOURCE_DIR);
  return all;
}

std::string complaints_of(Complaints (*rule)(const Source&)) {
  std::string text;
  for (const auto& source : sources())
    for (const auto& complaint : rule(source)) text += "\n" + complaint;
  return text;
}

TEST(Architecture, SeesTheWholeProject) {
  EXPECT_GT(sources().size(), 50u);
  EXPECT_TRUE(std::ranges::any_of(sources(), [](const auto& source) { return source.path == "reference/core/tensor.hpp"; }));
}

TEST(Architecture, IncludesFollowTheArrows) { EXPECT_EQ(complaints_of(arrows), ""); }
TEST(Architecture, LibrariesStayInTheirHomes) { EXPECT_EQ(complaints_of(homes), ""); }
TEST(Architecture, FilesStayShort) { EXPECT_EQ(complaints_of(length), ""); }
TEST(Architecture, LibrariesStaySilent) { EXPECT_EQ(complaints_of(silence), ""); }
TEST(Architecture, KernelsUseWideOffsets) { EXPECT_EQ(complaints_of(wide_offsets), ""); }
TEST(Architecture, NamesTellTheGpuArchitecture) { EXPECT_EQ(complaints_of(architecture_names), ""); }
TEST(Architecture, FilesIntroduceThemselves) { EXPECT_EQ(complaints_of(introductions), ""); }
TEST(Architecture, NothingIsLeftForLater) { EXPECT_EQ(complaints_of(leftovers), ""); }

TEST(Architecture, EveryTypeIsDefinedOnce) {
  std::string text;
  for (const auto& complaint : one_definition(sources())) text += "\n" + complaint;
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace megatoken::architecture
