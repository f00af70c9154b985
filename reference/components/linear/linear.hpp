// linear: y = x Wᵀ + bias, sums in the accumulator, one rounding.
//
//   dx = dy W      dW = dyᵀ x      dbias = Σ over rows of dy
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::linear {

struct Shape {
  int64_t b, t, c, o;  // batch, tokens, input width, output width
  bool bias;
  explicit Shape(const Axes& axes) : b(axes["b"]), t(axes["t"]), c(axes["c"]), o(axes["o"]), bias(axes["bias"] != 0) {}
  int64_t rows() const { return b * t; }
};

struct Tensors {
  using Shape = linear::Shape;
  static constexpr const char* kComponent = "linear";

  TensorView x, w, bias;        // b t c · o c · o (with axis bias)
  TensorView y, d_y;            // b t o
  TensorView dx, dw, dbias;     // b t c · o c (accumulator) · o (accumulator)

  static std::vector<FieldOf<Tensors>> fields();
};

}  // namespace megatoken::linear
