// The peak of resident memory counts what a call takes, also when the allocator could serve it from what was freed before.
#include <gtest/gtest.h>

#include <vector>

#include "harness/measure/timer.hpp"

namespace megatoken {
namespace {

std::vector<std::vector<char>> blocks() { return std::vector<std::vector<char>>(128, std::vector<char>(100000, 1)); }

TEST(PeakMemory, CountsMemoryThatWasInUseBefore) {
  auto first = blocks();
  const std::vector<char> behind(120000, 1);  // too large for the hole of the prototype; keeps the heap from shrinking when `first` goes
  std::vector<std::vector<char>>().swap(first);
  reset_peak_memory();
  const int64_t before = resident_memory();
  const auto again = blocks();
  EXPECT_EQ(again.back().back(), 1);
  EXPECT_GT(peak_memory() - before, 128 * 100000 * 9 / 10);
}

}  // namespace
}  // namespace megatoken
