// Merging attention over two sets of keys, from the outputs and the log-sum-exp (natural log) of each:
//   m = max(l, l'),  w = e^{l−m},  w' = e^{l'−m},  o ← (w·o + w'·o') / (w + w'),  l ← m + ln(w + w')
// The larger weight is 1, so nothing overflows however far the two are apart. A row that saw no key has l = −inf; when neither
// side saw one, o stays 0 and l stays −inf instead of −inf − (−inf).
#pragma once
#include "reference/core/tensor.hpp"

namespace megatoken::ring {

/// o, more_o: b t h dv; lse, more_lse: b h t; all in one accumulator dtype (fp32 or fp64), with any strides.
void merge(const TensorView& o, const TensorView& lse, const TensorView& more_o, const TensorView& more_lse, int threads);

/// sum += term for tensors of one shape and one accumulator dtype, with any strides; four axes.
void add(const TensorView& sum, const TensorView& term, int threads);

}  // namespace megatoken::ring
