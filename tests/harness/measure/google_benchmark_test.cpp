// The Google Benchmark program has cases of every CPU variant that runs over tokens, in every phase it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "reference/core/variant.hpp"

namespace megatoken {
namespace {

std::string listed_cases() {
  const std::string program = std::string(MEGATOKEN_BINARY_DIR) + "/megatoken_bench";
  if (!std::filesystem::exists(program)) return "";
  FILE* pipe = popen(("'" + program + "' --benchmark_list_tests").c_str(), "r");
  std::string text;
  char part[4096];
  while (pipe && fgets(part, sizeof part, pipe)) text += part;
  if (pipe) pclose(pipe);
  return text;
}

TEST(GoogleBenchmark, HasCasesOfEveryCpuVariant) {
  const std::string cases = listed_cases();
  if (cases.empty()) GTEST_SKIP() << "megatoken_bench was not built: Google Benchmark is missing";
  for (const Variant* variant : Registry<Variant>::instance().all()) {
    const Component& component = find_component(variant->component);
    if (variant->device != Device::Cpu || component.token_axes.empty()) continue;
    EXPECT_THAT(cases, testing::HasSubstr(variant->label() + " fwd fp32 t="));
    if (!variant->backward) continue;
    EXPECT_THAT(cases, testing::HasSubstr(variant->label() + " bwd fp32 t="));
  }
}

}  // namespace
}  // namespace megatoken
