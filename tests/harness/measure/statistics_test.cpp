#include "harness/measure/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/core/error.hpp"
#include "reference/core/random.hpp"

namespace megatoken {
namespace {

TEST(Summary, GivesQuartilesOfKnownSamples) {
  const Summary s = summarise({5, 1, 4, 2, 3});
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.q25, 2);
  EXPECT_EQ(s.q75, 4);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.samples, 5);
}

TEST(Summary, OneSampleIsItsOwnInterval) {
  const Summary s = summarise({7});
  EXPECT_EQ(s.low, 7);
  EXPECT_EQ(s.high, 7);
  EXPECT_THROW(summarise({}), Error);
}

TEST(Summary, IntervalHoldsTheTrueMedianInAboutNinetyFivePercent) {
  int covered = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    const RandomStream stream(static_cast<uint64_t>(run), "interval");
    std::vector<double> samples;
    for (int i = 0; i < 31; ++i) samples.push_back(std::exp(stream.normal(i)));  // skewed; true median 1
    const Summary s = summarise(samples);
    covered += s.low <= 1 && 1 <= s.high;
  }
  EXPECT_GE(covered, kRuns * 93 / 100);
  EXPECT_LT(covered, kRuns);
}

TEST(StopRule, StopsWhenPreciseFullOrLate) {
  StopRule rule;
  rule.min_samples = 5, rule.max_samples = 20, rule.timeout = 1;
  EXPECT_EQ(rule.stop({}, 5), "");
  EXPECT_EQ(rule.stop({0.1, 0.1, 0.1, 0.1}, 0.1), "");
  EXPECT_EQ(rule.stop({0.1, 0.1, 0.1, 0.1, 0.1}, 0.1), "precise");
  EXPECT_EQ(rule.stop({0.1, 0.2, 0.3, 0.1, 0.5, 0.2}, 0.1), "");
  EXPECT_EQ(rule.stop({0.1, 0.2, 0.3, 0.1, 0.5, 0.2}, 1.5), "timeout");
  EXPECT_EQ(rule.stop(std::vector<double>(20, 0.1), 0.1), "max_samples");
}

TEST(LogSlope, RecoversPowerLaws) {
  const std::vector<double> x{1024, 2048, 4096, 8192};
  std::vector<double> linear, square;
  for (double v : x) linear.push_back(3e-6 * v), square.push_back(2e-9 * v * v);
  EXPECT_NEAR(log_slope(x, linear), 1, 1e-12);
  EXPECT_NEAR(log_slope(x, square), 2, 1e-12);
  EXPECT_THROW(log_slope({1}, {1}), Error);
}

}  // namespace
}  // namespace megatoken
