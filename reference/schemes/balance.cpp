// Causal work per rank and ring step, counted and in closed form.
#include "reference/schemes/balance.hpp"

#include <algorithm>
#include <numeric>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

void check_divides(TokenSplit split, int64_t t, int64_t ranks) {
  const int64_t unit = split == TokenSplit::Zigzag ? 2 * ranks : ranks;
  MEGATOKEN_CHECK(ranks >= 1, "a sequence over {} ranks: at least 1 rank is needed", ranks);
  MEGATOKEN_CHECK(t > 0 && t % unit == 0, "{} tokens over {} ranks: the length must be a multiple of {}, the nearest is {}", t, ranks, unit,
                  std::max<int64_t>(1, (t + unit / 2) / unit) * unit);
}

int64_t triangle(int64_t n) { return n * (n + 1) / 2; }

}  // namespace

int64_t token_position(TokenSplit split, int64_t t, int64_t ranks, int64_t rank, int64_t row) {
  const int64_t n = t / ranks;
  switch (split) {
    case TokenSplit::Contiguous: return rank * n + row;
    case TokenSplit::Striped: return row * ranks + rank;
    case TokenSplit::Zigzag: break;
  }
  const int64_t a = n / 2;
  return row < a ? rank * a + row : (2 * ranks - 1 - rank) * a + row - a;
}

std::vector<int64_t> PairCounts::per_rank() const {
  std::vector<int64_t> sum(pairs.empty() ? 0 : pairs[0].size(), 0);
  for (const auto& step : pairs)
    for (size_t rank = 0; rank < step.size(); ++rank) sum[rank] += step[rank];
  return sum;
}

std::vector<int64_t> PairCounts::per_step() const {
  std::vector<int64_t> slowest;
  for (const auto& step : pairs) slowest.push_back(*std::max_element(step.begin(), step.end()));
  return slowest;
}

int64_t PairCounts::step_sum() const {
  const auto steps = per_step();
  return std::accumulate(steps.begin(), steps.end(), int64_t{0});
}

int64_t PairCounts::total() const {
  const auto ranks = per_rank();
  return std::accumulate(ranks.begin(), ranks.end(), int64_t{0});
}

double PairCounts::max_over_mean() const {
  const auto ranks = per_rank();
  const double mean = static_cast<double>(total()) / static_cast<double>(ranks.size());
  return static_cast<double>(*std::max_element(ranks.begin(), ranks.end())) / mean;
}

PairCounts count_causal_pairs(TokenSplit split, int64_t t, int64_t ranks) {
  check_divides(split, t, ranks);
  const int64_t n = t / ranks;
  PairCounts counts{std::vector<std::vector<int64_t>>(ranks, std::vector<int64_t>(ranks, 0))};
  for (int64_t step = 0; step < ranks; ++step)
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t key_rank = (rank - step + ranks) % ranks;
      for (int64_t query = 0; query < n; ++query)
        for (int64_t key = 0; key < n; ++key)
          counts.pairs[step][rank] += token_position(split, t, ranks, key_rank, key) <= token_position(split, t, ranks, rank, query);
    }
  return counts;
}

PairCounts causal_pairs(TokenSplit split, int64_t t, int64_t ranks) {
  check_divides(split, t, ranks);
  const int64_t n = t / ranks, a = n / 2;
  PairCounts counts{std::vector<std::vector<int64_t>>(ranks, std::vector<int64_t>(ranks, 0))};
  for (int64_t step = 0; step < ranks; ++step)
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const bool keys_come_earlier = step <= rank;  // the block is from this or a lower rank
      int64_t& pairs = counts.pairs[step][rank];
      switch (split) {
        case TokenSplit::Contiguous: pairs = step == 0 ? triangle(n) : keys_come_earlier ? n * n : 0; break;
        case TokenSplit::Zigzag: pairs = step == 0 ? a * a + 2 * triangle(a) : 2 * a * a; break;
        case TokenSplit::Striped: pairs = keys_come_earlier ? triangle(n) : triangle(n - 1); break;
      }
    }
  return counts;
}

PairCounts count_visible_pairs(const Layout& layout, bool causal, std::span<const int32_t> documents) {
  const auto ranks = static_cast<size_t>(layout.ranks());
  PairCounts counts{std::vector<std::vector<int64_t>>(ranks, std::vector<int64_t>(ranks, 0))};
  const auto visible = [&](int64_t query, int64_t key) {
    if (query < 0 || key < 0 || (causal && key > query)) return false;
    return documents.empty() || documents[static_cast<size_t>(query)] == documents[static_cast<size_t>(key)];
  };
  for (size_t step = 0; step < ranks; ++step)
    for (size_t rank = 0; rank < ranks; ++rank)
      for (int64_t query : layout.tokens[rank])
        for (int64_t key : layout.tokens[(rank + ranks - step) % ranks]) counts.pairs[step][rank] += visible(query, key);
  return counts;
}

double needed_key_fraction(TokenSplit split, int64_t t, int64_t ranks) {
  check_divides(split, t, ranks);
  if (ranks == 1) return 1;
  const int64_t n = t / ranks;
  int64_t needed = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    int64_t last_query = 0;
    for (int64_t query = 0; query < n; ++query) last_query = std::max(last_query, token_position(split, t, ranks, rank, query));
    for (int64_t other = 0; other < ranks; ++other)
      for (int64_t key = 0; other != rank && key < n; ++key) needed += token_position(split, t, ranks, other, key) <= last_query;
  }
  return static_cast<double>(needed) / static_cast<double>(ranks * (ranks - 1) * n);
}

}  // namespace megatoken
