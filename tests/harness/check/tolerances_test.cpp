#include "harness/check/tolerances.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace megatoken {
namespace {

const std::string kDefaults = R"(
version = 1
[default]
metric = "rel_rms"
factor = { fwd = 2.0, bwd = 3.0 }
floor = { fp64 = 1e-13, fp32 = 5e-7, fp16 = 1e-4, bf16 = 1e-3, e4m3 = 1e-2 }
outlier_fraction = 1e-6
)";

std::string error_of(const std::string& extra, const std::string& today = "2026-01-01") {
  try {
    Tolerances::parse(kDefaults + extra, "t.toml", today);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Tolerances, OverridesOneTensorAtOneDtype) {
  const auto t = Tolerances::parse(kDefaults + "[attention.dk.bf16]\nfactor = 4.0\nwhy = \"measured\"\n", "t.toml", "2026-01-01");
  EXPECT_EQ(t.lookup("attention", "dk", DType::BF16, true).factor, 4);
  EXPECT_EQ(t.lookup("attention", "dk", DType::F32, true).factor, 3);
  EXPECT_EQ(t.lookup("attention", "o", DType::BF16, false).factor, 2);
  EXPECT_EQ(t.lookup("attention", "o", DType::BF16, false).floor, 1e-3);
}

TEST(Tolerances, AreStrict) {
  EXPECT_THAT(error_of("[attention.dk.bf16]\nfactor = 4.0\n"), testing::HasSubstr("no reason"));
  EXPECT_THAT(error_of("[attention.dk.bf16]\nfactr = 4.0\nwhy = \"x\"\n"), testing::HasSubstr("did you mean factor"));
  EXPECT_THAT(error_of("[attention.dk.bf61]\nfactor = 4.0\nwhy = \"x\"\n"), testing::HasSubstr("bf61"));
  EXPECT_THAT(error_of("[attention.dk.bf16]\nfactor = 4.0\nwhy = \"x\"\nuntil = \"2025-12-31\"\n"), testing::HasSubstr("ran out"));
  EXPECT_EQ(error_of("[attention.dk.bf16]\nfactor = 4.0\nwhy = \"x\"\nuntil = \"2026-12-31\"\n"), "");
}

TEST(Tolerances, EveryOverrideOfTheBuiltInFileNamesARealTensor) {
  for (const auto& key : Tolerances::standard().overrides()) {
    const auto dot = key.find('.'), last = key.rfind('.');
    EXPECT_NO_THROW(find_component(key.substr(0, dot)).index(key.substr(dot + 1, last - dot - 1))) << key;
  }
}

}  // namespace
}  // namespace megatoken
