// kda/chunk_wy: what its forward and backward share, and the same computation cut into segments.
#pragma once
#include "reference/components/kda/kda.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::kda {

void chunk_wy_forward(const Shape& shape, const Tensors& x, Context& context);
void chunk_wy_backward(const Shape& shape, const Tensors& x, Context& context);
int64_t chunk_wy_backward_workspace(const Shape& shape, DType dtype);

/// The same results from `segments` runs of chunks that start independently. A run of tokens maps the state affinely, S_out = M S + B, and its
/// gradient by the adjoint map, dS = Mᵀ dS_out + C: every segment first finds its M and B (C on the way back) alone, a chain over
/// segments gives each its true state, then each computes as usual. What ranks of a sharded sequence exchange. Allocates.
void chunk_wy_forward_in_segments(const Shape& shape, const Tensors& x, Context& context, int64_t segments);
void chunk_wy_backward_in_segments(const Shape& shape, const Tensors& x, Context& context, int64_t segments);

}  // namespace megatoken::kda
