// The counter-based generator: known answers of its authors, and the statistics that the distributions promise.
#include "reference/core/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace megatoken {
namespace {

TEST(Philox, MatchesKnownAnswers) {
  const auto expect = [](const Philox& got, std::vector<uint32_t> want) {
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], want[i]) << "word " << i;
  };
  // Rows "philox4x32 10" of the test vectors that Random123 is published with; the third is made of digits of π.
  expect(philox4x32(0, 0, 0, 0, 0, 0), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect(philox4x32(0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff), {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect(philox4x32(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0), {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

constexpr int64_t kSamples = 200000;

TEST(RandomStream, NormalsHaveTheMomentsTheyShould) {
  const RandomStream stream(3, "moments");
  double sum = 0, sum2 = 0, sum3 = 0, sum4 = 0, largest = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const double x = stream.normal(i);
    sum += x, sum2 += x * x, sum3 += x * x * x, sum4 += x * x * x * x;
    largest = std::max(largest, std::abs(x));
  }
  const double n = kSamples, standard_error = 1 / std::sqrt(n);
  EXPECT_NEAR(sum / n, 0, 5 * standard_error);
  EXPECT_NEAR(sum2 / n, 1, 5 * std::sqrt(2.0) * standard_error);
  EXPECT_NEAR(sum3 / n, 0, 5 * std::sqrt(15.0) * standard_error);
  EXPECT_NEAR(sum4 / n, 3 - 1.2 / 8, 5 * std::sqrt(96.0) * standard_error) << "kurtosis of a sum of eight uniforms";
  EXPECT_LT(largest, 4.9);
  EXPECT_GT(largest, 3.5);
}

TEST(RandomStream, NeighboursStreamsAndSeedsAreUncorrelated) {
  const RandomStream stream(3, "a"), other(3, "b"), seeded(4, "a");
  double neighbour = 0, name = 0, seed = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    neighbour += stream.normal(i) * stream.normal(i + 1);
    name += stream.normal(i) * other.normal(i);
    seed += stream.normal(i) * seeded.normal(i);
  }
  for (double correlation : {neighbour, name, seed}) EXPECT_NEAR(correlation / kSamples, 0, 5 / std::sqrt(static_cast<double>(kSamples)));
}

TEST(RandomStream, UniformsFillTheUnitInterval) {
  const RandomStream stream(5, "uniform");
  std::vector<int64_t> counts(16);
  for (int64_t i = 0; i < kSamples; ++i) {
    const double x = stream.uniform(i);
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    ++counts[static_cast<size_t>(16 * x)];
  }
  double chi2 = 0;
  for (int64_t count : counts) chi2 += std::pow(static_cast<double>(count) - kSamples / 16.0, 2) / (kSamples / 16.0);
  EXPECT_LT(chi2, 45) << "15 degrees of freedom: 45 is passed once in ten thousand";
}

TEST(RandomStream, IntegersStayBelowTheirBoundAndReachIt) {
  const RandomStream stream(5, "integer");
  std::vector<int64_t> counts(7);
  for (int64_t i = 0; i < 7000; ++i) ++counts.at(static_cast<size_t>(stream.integer(i, 7)));
  for (int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 1000, 150);
}

TEST(RandomStream, IndicesBeyond32BitsAreNotTheLowOnesAgain) {
  const RandomStream stream(9, "far");
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_NE(stream.words(i).word[0], stream.words(i + (int64_t{1} << 32)).word[0]);
    EXPECT_NE(stream.words(i).word[0], stream.words(i + (int64_t{1} << 31)).word[0]);
  }
  EXPECT_NE(RandomStream(1, "x").words(0).word[0], RandomStream(1 + (uint64_t{1} << 32), "x").words(0).word[0]) << "seeds have 64 bits";
}

}  // namespace
}  // namespace megatoken
