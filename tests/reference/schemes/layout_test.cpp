// Layouts place every token once, for all small sizes, with and without padding.
#include "reference/schemes/layout.hpp"

#include <gtest/gtest.h>

#include <map>

#include "reference/core/error.hpp"
#include "reference/schemes/balance.hpp"

namespace megatoken {
namespace {

using Rows = std::vector<std::vector<int64_t>>;

void expect_bijection(const Layout& layout, int64_t t, int ranks) {
  ASSERT_EQ(layout.ranks(), ranks);
  std::map<int64_t, int> seen;
  for (const auto& tokens : layout.tokens) {
    ASSERT_EQ(static_cast<int64_t>(tokens.size()), layout.local_rows());
    for (int64_t token : tokens) ++seen[token];
  }
  const int64_t padding = ranks * layout.local_rows() - t;
  EXPECT_EQ(seen.count(-1) ? seen[-1] : 0, padding);
  seen.erase(-1);
  ASSERT_EQ(static_cast<int64_t>(seen.size()), t);
  for (const auto& [token, times] : seen) {
    EXPECT_EQ(times, 1) << "token " << token;
    EXPECT_LT(token, t);
  }
  EXPECT_TRUE(t == 0 || seen.begin()->first == 0);
}

TEST(Layout, EveryTokenLiesOnExactlyOneRow) {
  for (int ranks = 1; ranks <= 16; ++ranks)
    for (int64_t t = 0; t <= 8 * ranks; ++t) {
      SCOPED_TRACE(testing::Message() << t << " tokens, " << ranks << " ranks");
      expect_bijection(contiguous_layout(t, ranks), t, ranks);
      expect_bijection(zigzag_layout(t, ranks), t, ranks);
      expect_bijection(striped_layout(t, ranks), t, ranks);
      EXPECT_LT(contiguous_layout(t, ranks).local_rows() * ranks, t + ranks);
      EXPECT_LT(zigzag_layout(t, ranks).local_rows() * ranks, t + 2 * ranks);
    }
}

TEST(Layout, TokensAreInIncreasingOrderOnEveryRankWithPaddingWhereItBelongs) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int64_t t = 0; t <= 8 * ranks; ++t)
      for (const auto& layout : {contiguous_layout(t, ranks), zigzag_layout(t, ranks), striped_layout(t, ranks)})
        for (const auto& tokens : layout.tokens) {
          int64_t last = -1;
          for (int64_t token : tokens) {
            if (token < 0) continue;
            EXPECT_GT(token, last);
            last = token;
          }
        }
}

TEST(Layout, KnownPlacements) {
  EXPECT_EQ(zigzag_layout(8, 2).tokens, (Rows{{0, 1, 6, 7}, {2, 3, 4, 5}}));
  EXPECT_EQ(contiguous_layout(7, 3).tokens, (Rows{{0, 1, 2}, {3, 4, 5}, {6, -1, -1}}));
  EXPECT_EQ(zigzag_layout(9, 2).tokens, (Rows{{0, 1, 2, -1, -1, -1}, {3, 4, 5, 6, 7, 8}}));
  EXPECT_EQ(striped_layout(7, 3).tokens, (Rows{{0, 3, 6}, {1, 4, -1}, {2, 5, -1}}));
  EXPECT_EQ(contiguous_layout(1, 4).tokens, (Rows{{0}, {-1}, {-1}, {-1}}));
  EXPECT_EQ(contiguous_layout(0, 2).tokens, (Rows{{}, {}}));
}

TEST(Layout, AgreesWithTheSplitsOfTheBalanceCount) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int64_t t = 2 * ranks; t <= 8 * ranks; t += 2 * ranks)
      for (int rank = 0; rank < ranks; ++rank)
        for (int64_t row = 0; row < t / ranks; ++row) {
          const auto r = static_cast<size_t>(rank), i = static_cast<size_t>(row);
          EXPECT_EQ(contiguous_layout(t, ranks).tokens[r][i], token_position(TokenSplit::Contiguous, t, ranks, rank, row));
          EXPECT_EQ(zigzag_layout(t, ranks).tokens[r][i], token_position(TokenSplit::Zigzag, t, ranks, rank, row));
          EXPECT_EQ(striped_layout(t, ranks).tokens[r][i], token_position(TokenSplit::Striped, t, ranks, rank, row));
        }
}

TEST(Layout, RefusesNegativeLengthsAndNoRanks) {
  EXPECT_THROW(contiguous_layout(-1, 2), Error);
  EXPECT_THROW(zigzag_layout(4, 0), Error);
}

}  // namespace
}  // namespace megatoken
