// Ring attention: queries stay, keys and values of all ranks pass by, one rank's block a step.
//
// Forward, rank r, step i: works on the keys of rank r − i while they already travel on to r + 1 and the next ones arrive from r − 1;
// partial results are merged by their log-sum-exp (merge.hpp) and rounded to the case's dtype once, at the end.
// Backward turns the other way: it starts with the block that came last in the forward, r + 1, and ends with the own one. The sums for
// dk, dv travel with their block, one rank behind it, and are home after r − 1 hops: the own rank adds its part last.
// The first backward hop, which fetches block r + 1 again, overlaps with nothing; all others overlap with a block's work.
//
// Bytes a rank sends (reference/schemes/traffic.hpp): forward (r−1)·kv, backward (r−1)·(kv + dkv); kv in the case's dtype, dkv in the
// accumulator's. Memory besides the rank's own tensors: two received kv blocks, two travelling dkv blocks, one block of results.
//
// ring and zigzag differ in their layout and in which rows meet in a step, nothing else. These are the replaceable parts of a Ring,
// together with the steps where such code goes wrong in practice, so that a test can plant a fault in one place.
#pragma once
#include <functional>

#include "reference/schemes/scheme.hpp"

namespace megatoken::ring {

/// Queries [q_begin, q_end) of a rank meet keys [k_begin, k_end) of a block.
struct Part {
  int64_t q_begin = 0, q_end = 0, k_begin = 0, k_end = 0;
  bool causal = false;  // positions must be compared; false: no key comes after a query, only documents and padding hide keys
  int64_t queries() const { return q_end - q_begin; }
  int64_t keys() const { return k_end - k_begin; }
  bool empty() const { return queries() == 0 || keys() == 0; }
};

inline int forward_source(int rank, int step, int ranks) { return (rank - step + ranks) % ranks; }
inline int backward_source(int rank, int step, int ranks) { return (rank + 1 + step) % ranks; }

struct Ring {
  std::function<Layout(int64_t t, int ranks)> layout;
  /// What is left of own rows × rows of `source` when keys after the query are hidden; every rank holds n rows.
  std::function<Part(int64_t n, int rank, int source)> causal_part;
  /// Whose block a rank works on.
  std::function<int(int rank, int step, int ranks)> forward_source = ring::forward_source, backward_source = ring::backward_source;
  /// (o, lse) ← merged with (more_o, more_lse); sum ← sum + term.
  std::function<void(const TensorView& o, const TensorView& lse, const TensorView& more_o, const TensorView& more_lse, int threads)> merge;
  std::function<void(const TensorView& sum, const TensorView& term, int threads)> add;
};

/// Contiguous: a block of a lower rank is seen whole, one of a higher rank not at all.
Ring contiguous_ring();

Scheme make_ring_scheme(std::string name, std::string about, const Ring& ring);

}  // namespace megatoken::ring
