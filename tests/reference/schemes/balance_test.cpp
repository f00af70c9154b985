// Causal work per rank: counted, in closed form, and against golden numbers.
#include "reference/schemes/balance.hpp"

#include <gtest/gtest.h>

#include <set>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

using Counts = std::vector<int64_t>;
constexpr TokenSplit kSplits[] = {TokenSplit::Contiguous, TokenSplit::Zigzag, TokenSplit::Striped};

TEST(Balance, EverySplitPlacesEveryTokenOnce) {
  for (TokenSplit split : kSplits)
    for (int64_t ranks : {1, 2, 3, 4, 5, 8}) {
      const int64_t t = 6 * ranks;
      std::set<int64_t> seen;
      for (int64_t rank = 0; rank < ranks; ++rank)
        for (int64_t row = 0; row < t / ranks; ++row) seen.insert(token_position(split, t, ranks, rank, row));
      EXPECT_EQ(static_cast<int64_t>(seen.size()), t);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), t - 1);
    }
}

TEST(Balance, ClosedFormsEqualCounting) {
  for (TokenSplit split : kSplits)
    for (int64_t ranks = 1; ranks <= 8; ++ranks)
      for (int64_t chunk = 1; chunk <= 4; ++chunk) {
        const int64_t t = 2 * ranks * chunk;
        EXPECT_EQ(causal_pairs(split, t, ranks), count_causal_pairs(split, t, ranks)) << t << " tokens, " << ranks << " ranks";
        EXPECT_EQ(causal_pairs(split, t, ranks).total(), t * (t + 1) / 2);
      }
}

TEST(Balance, CountingOnTheRealLayoutsAgrees) {
  for (int64_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t chunk = 1; chunk <= 4; ++chunk) {
      const int64_t t = 2 * ranks * chunk;
      const auto n = static_cast<int>(ranks);
      EXPECT_EQ(count_visible_pairs(contiguous_layout(t, n), true), causal_pairs(TokenSplit::Contiguous, t, ranks));
      EXPECT_EQ(count_visible_pairs(zigzag_layout(t, n), true), causal_pairs(TokenSplit::Zigzag, t, ranks));
      EXPECT_EQ(count_visible_pairs(striped_layout(t, n), true), causal_pairs(TokenSplit::Striped, t, ranks));
      EXPECT_EQ(count_visible_pairs(zigzag_layout(t, n), false).per_rank(), Counts(static_cast<size_t>(ranks), t * t / ranks));
    }
}

TEST(Balance, PaddingAndDocumentBordersAreNotCounted) {
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (int64_t t = 1; t <= 4 * ranks + 1; ++t)
      for (const auto& layout : {contiguous_layout(t, ranks), zigzag_layout(t, ranks), striped_layout(t, ranks)}) {
        EXPECT_EQ(count_visible_pairs(layout, true).total(), t * (t + 1) / 2);
        EXPECT_EQ(count_visible_pairs(layout, false).total(), t * t);
      }
  const std::vector<int32_t> documents{0, 0, 0, 1, 2, 2, 2, 2, 2};  // 3, 1 and 5 tokens
  EXPECT_EQ(count_visible_pairs(zigzag_layout(9, 2), true, documents).total(), 6 + 1 + 15);
  EXPECT_EQ(count_visible_pairs(contiguous_layout(9, 3), true, documents).per_rank(), (Counts{6, 1 + 1 + 2, 3 + 4 + 5}));
  EXPECT_EQ(count_visible_pairs(contiguous_layout(9, 3), true, documents).pairs[1], (Counts{0, 0, 6}));
}

TEST(Balance, SixteenTokensOnFourRanksAreTenTwentySixFortyTwoFiftyEight) {
  const auto contiguous = causal_pairs(TokenSplit::Contiguous, 16, 4), zigzag = causal_pairs(TokenSplit::Zigzag, 16, 4);
  EXPECT_EQ(contiguous.per_rank(), (Counts{10, 26, 42, 58}));
  EXPECT_EQ(contiguous.per_step(), (Counts{10, 16, 16, 16}));
  EXPECT_EQ(contiguous.step_sum(), 58);
  EXPECT_NEAR(contiguous.max_over_mean(), 1.70588, 5e-6);
  EXPECT_EQ(zigzag.per_rank(), Counts(4, 34));
  EXPECT_EQ(zigzag.per_step(), (Counts{10, 8, 8, 8}));
  EXPECT_EQ(zigzag.step_sum(), 34);
}

TEST(Balance, ThirtyTwoTokensOnEightRanks) {
  const auto contiguous = causal_pairs(TokenSplit::Contiguous, 32, 8), zigzag = causal_pairs(TokenSplit::Zigzag, 32, 8);
  EXPECT_EQ(contiguous.per_rank(), (Counts{10, 26, 42, 58, 74, 90, 106, 122}));
  EXPECT_EQ(contiguous.step_sum(), 122);
  EXPECT_EQ(zigzag.per_rank(), Counts(8, 66));
  EXPECT_EQ(zigzag.step_sum(), 66);
}

struct GoldenRow {
  int64_t t, ranks, slowest, zigzag;
  double max_over_mean;
};

TEST(Balance, FurtherGoldenRowsAgree) {
  const GoldenRow rows[] = {{32, 4, 228, 132, 1.7273}, {64, 8, 484, 260, 1.8615}, {24, 2, 222, 150, 1.48}, {48, 3, 648, 392, 1.6531}, {60, 5, 654, 366, 1.7869}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.t);
    const auto contiguous = causal_pairs(TokenSplit::Contiguous, row.t, row.ranks), zigzag = causal_pairs(TokenSplit::Zigzag, row.t, row.ranks);
    EXPECT_EQ(contiguous.per_rank().back(), row.slowest);
    EXPECT_EQ(contiguous.step_sum(), row.slowest);
    EXPECT_NEAR(contiguous.max_over_mean(), row.max_over_mean, 5e-5);
    EXPECT_EQ(zigzag.per_rank(), Counts(row.ranks, row.zigzag));
    EXPECT_EQ(zigzag.step_sum(), row.zigzag);
  }
}

TEST(Balance, ZigZagStepSumEqualsThePerRankSum) {
  for (int64_t ranks = 1; ranks <= 16; ++ranks)
    for (int64_t a : {1, 2, 3, 7, 64}) {
      const auto zigzag = causal_pairs(TokenSplit::Zigzag, 2 * ranks * a, ranks);
      EXPECT_EQ(zigzag.step_sum(), (2 * ranks - 1) * a * a + a * (a + 1));
      EXPECT_EQ(zigzag.per_rank(), Counts(ranks, zigzag.step_sum()));
    }
}

TEST(Balance, StripedIsBalancedOnlyUpToTheDiagonal) {
  EXPECT_EQ(causal_pairs(TokenSplit::Striped, 16, 4).step_sum(), 40);
  EXPECT_EQ(causal_pairs(TokenSplit::Striped, 32, 8).step_sum(), 80);
}

TEST(Balance, ContiguousTendsToTwoMinusOneOverRanks) {
  for (int64_t ranks : {2, 4, 8}) {
    const auto counts = causal_pairs(TokenSplit::Contiguous, ranks << 16, ranks);
    EXPECT_NEAR(counts.max_over_mean(), 2 - 1.0 / static_cast<double>(ranks), 1e-4);
    const auto per_rank = counts.per_rank();
    EXPECT_NEAR(static_cast<double>(per_rank.back()) / static_cast<double>(per_rank.front()), static_cast<double>(2 * ranks - 1), 1e-3);
  }
}

TEST(Balance, HalfOfAContiguousAndAQuarterOfAZigZagRingIsNotNeeded) {
  for (int64_t ranks : {2, 3, 4, 8}) {
    EXPECT_DOUBLE_EQ(needed_key_fraction(TokenSplit::Contiguous, 4 * ranks, ranks), 0.5);
    EXPECT_DOUBLE_EQ(needed_key_fraction(TokenSplit::Zigzag, 4 * ranks, ranks), 0.75);
  }
  EXPECT_DOUBLE_EQ(needed_key_fraction(TokenSplit::Zigzag, 8, 1), 1);
}

TEST(Balance, LengthsThatDoNotDivideNameTheNearestValidOne) {
  try {
    causal_pairs(TokenSplit::Zigzag, 32769, 4);
    FAIL() << "32,769 tokens do not split into 8 chunks";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("multiple of 8, the nearest is 32768"), std::string::npos) << error.what();
  }
  EXPECT_THROW(causal_pairs(TokenSplit::Contiguous, 0, 4), Error);
  EXPECT_THROW(count_causal_pairs(TokenSplit::Striped, 16, 0), Error);
}

}  // namespace
}  // namespace megatoken
