// swiglu/tiled with the number of pieces in the caller's hand; the variant itself chooses it by the size of the problem.
#pragma once
#include "reference/components/swiglu/swiglu.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::swiglu {

/// The tokens in exactly `pieces` pieces (≥ 1), on context.threads threads. The bits do not depend on either number.
void tiled_forward(const Shape& shape, const Tensors& tensors, int64_t pieces, Context& context);
void tiled_backward(const Shape& shape, const Tensors& tensors, int64_t pieces, Context& context);

}  // namespace megatoken::swiglu
