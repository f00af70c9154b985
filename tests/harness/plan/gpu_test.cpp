// GPU descriptions: what comes with the program, and what is refused.
#include "harness/plan/gpu.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/harness/plan/requests.hpp"

namespace megatoken::plan {
namespace {

std::string description(const std::string& name) {
  std::ifstream file(std::string(MEGATOKEN_SOURCE_DIR) + "/harness/plan/gpus/" + name + ".toml");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string complaint(const std::string& toml) { return usage_error([&] { parse_gpu(toml, "mine.toml"); }); }

TEST(Gpu, EveryKnownDescriptionLoadsWithASourceForEveryNumber) {
  EXPECT_EQ(known_gpus(), (std::vector<std::string>{"a100", "b200", "gb300", "h100", "h200"}));
  for (const auto& name : known_gpus())
    for (const auto& [field, number] : described(load_gpu(name))) {
      EXPECT_GT(number.value, 0) << name << " " << field;
      EXPECT_FALSE(number.source.empty()) << name << " " << field;
    }
}

TEST(Gpu, TheB200HoldsAbout178GiB) { EXPECT_NEAR(load_gpu("b200").memory.value / (1 << 30), 178, 0.5); }

TEST(Gpu, RatesOfTheH200AreTheMeasuredOnes) {
  const Gpu gpu = load_gpu("h200");
  EXPECT_EQ(gpu.gemm.value, 7.2e14);
  EXPECT_EQ(gpu.memory_bandwidth.value, 4.27e12);
  EXPECT_EQ(gpu.host_link.value, 5.54e10);
}

TEST(Gpu, GroupsInsideOneDomainUseTheLink) {
  const Gpu gpu = load_gpu("h100");
  EXPECT_EQ(gpu.rate_between(8, 1), gpu.link.value);
  EXPECT_EQ(gpu.rate_between(2, 4), gpu.link.value);
  EXPECT_EQ(gpu.rate_between(2, 8), gpu.network.value);
  EXPECT_EQ(gpu.rate_between(16, 1), gpu.network.value);
  const Gpu rack = load_gpu("gb300");
  EXPECT_EQ(rack.rate_between(64, 1), rack.link.value);
  EXPECT_EQ(rack.tray_gpus.value, 4);
  EXPECT_EQ(gpu.tray_gpus.value, 8);  // as node_gpus when absent
}

TEST(Gpu, ReadsAFileOfOnesOwn) {
  const std::string path = (std::filesystem::temp_directory_path() / "megatoken_gpu_test.toml").string();
  std::ofstream(path) << with(description("h100"), "name = \"H100\"", "name = \"mine\"");
  EXPECT_EQ(load_gpu(path).name, "mine");
  std::filesystem::remove(path);
}

TEST(Gpu, BadDescriptionsAreUsageErrors) {
  const std::string good = description("h100");
  EXPECT_EQ(complaint(good), "no error");
  EXPECT_PRED2(holds, complaint("name = "), "mine.toml: line 1");
  EXPECT_PRED2(holds, complaint(with(good, "[link]", "[lnk]")), "unknown mine.toml: field 'lnk'");
  EXPECT_PRED2(holds, complaint(with(good, "[link]", "[lnk]")), "did you mean link");
  EXPECT_PRED2(holds, complaint(with(good, "name = \"H100\"", "")), "name is missing");
  EXPECT_PRED2(holds, complaint(with(good, "value = 4.5e11", "value = -4.5e11")), "[link] value = -4.5e+11 B/s, it must lie between");
  EXPECT_PRED2(holds, complaint(with(good, "value = 4.5e11", "speed = 4.5e11")), "[link] key 'speed'");
  EXPECT_PRED2(holds, complaint(with(good, "value = 4.5e11\nunit = \"B/s\"", "value = 4.5e11\nunit = \"GB/s\"")), "[link] unit must be \"B/s\"");
  EXPECT_PRED2(holds, complaint(with(good, "source = \"HGX H100\"", "source = \"\"")), "needs a source");
  EXPECT_PRED2(holds, complaint(with(good, "value = 6.93e14", "value = 6.93e15")), "[gemm] is above [bf16_peak]");
}

TEST(Gpu, UnknownNamesSuggestTheNearest) {
  EXPECT_PRED2(holds, usage_error([] { load_gpu("h300"); }), "did you mean h100, h200");
  EXPECT_PRED2(holds, usage_error([] { load_gpu("nowhere.toml"); }), "cannot be read");
}

}  // namespace
}  // namespace megatoken::plan
