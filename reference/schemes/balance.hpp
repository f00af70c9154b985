// Who computes how many causal (query, key) pairs when one sequence of t tokens is spread over r ranks: the reason for zig-zag.
// Counted plainly from the positions, and again in closed form; the tests hold one against the other.
// In a ring, at step i rank q works on the keys of rank (q − i) mod r; the slowest rank of a step sets its time.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "reference/schemes/layout.hpp"

namespace megatoken {

/// Contiguous: rank q holds [q·n, (q+1)·n). Zigzag: 2r chunks, rank q holds chunks q and 2r−1−q. Striped: token i is on rank i mod r.
enum class TokenSplit { Contiguous, Zigzag, Striped };

/// Global position of local row `row` of `rank`. t must be a multiple of r, for zigzag of 2r.
int64_t token_position(TokenSplit split, int64_t t, int64_t ranks, int64_t rank, int64_t row);

struct PairCounts {
  std::vector<std::vector<int64_t>> pairs;  // [ring step][rank]

  std::vector<int64_t> per_rank() const;  // summed over the steps
  std::vector<int64_t> per_step() const;  // the slowest rank of each step
  int64_t step_sum() const;               // what the ring waits for: the sum of per_step()
  int64_t total() const;                  // t(t+1)/2 for any split
  double max_over_mean() const;           // slowest rank over the mean rank, 1 = balanced
  bool operator==(const PairCounts&) const = default;
};

/// Plain counting: every query against every key. For small t.
PairCounts count_causal_pairs(TokenSplit split, int64_t t, int64_t ranks);
/// The same numbers in closed form: contiguous n(n+1)/2, then n² or 0; zigzag a²+a(a+1), then 2a²; striped n(n+1)/2 or n(n−1)/2.
PairCounts causal_pairs(TokenSplit split, int64_t t, int64_t ranks);

/// Plain counting on the layout that a scheme really uses, padding and packed documents (document of every token; none: one
/// document) left out.
PairCounts count_visible_pairs(const Layout& layout, bool causal, std::span<const int32_t> documents = {});

/// Of the key rows a rank receives in a causal ring, the part that any of its queries may see: 1/2 contiguous, 3/4 zigzag.
/// Plain counting, for small t; 1 for a single rank, which receives nothing.
double needed_key_fraction(TokenSplit split, int64_t t, int64_t ranks);

}  // namespace megatoken
