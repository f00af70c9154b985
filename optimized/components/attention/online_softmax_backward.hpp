// The backward half of attention/online_softmax.
#pragma once
#include "reference/components/attention/attention.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::attention {

void online_softmax_backward(const Shape& shape, const Tensors& x, Context& context);
int64_t online_softmax_backward_workspace(const Shape& shape, DType dtype);

}  // namespace megatoken::attention
