// rms_norm: root-mean-square normalisation of rows (glm53_flash.md §2.1).
//
//   r = (mean_j x_j² + eps)^(−1/2)      x̂ = round(x r)      y = w x̂
// x̂ is rounded to the case's dtype before the product with w, as the reference model does. Backward, in the accumulator:
//   a = w dy      dx = r (a − x r · mean_j(a_j x_j r))      dw = Σ over tokens of dy x̂
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::rms_norm {

struct Shape {
  int64_t b, t, c;
  double eps;  // inside the root, added to the mean
  explicit Shape(const Axes& axes) : b(axes["b"]), t(axes["t"]), c(axes["c"]), eps(axes.real("eps")) {}
};

struct Tensors {
  using Shape = rms_norm::Shape;
  static constexpr const char* kComponent = "rms_norm";

  TensorView x, w;       // b t c · c (case dtype)
  TensorView y, d_y;     // b t c
  TensorView dx, dw;     // b t c · c (accumulator)

  static std::vector<FieldOf<Tensors>> fields();
};

}  // namespace megatoken::rms_norm
