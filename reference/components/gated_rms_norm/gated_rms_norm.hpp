// gated_rms_norm: the output norm of a KDA layer, per head, with a sigmoid gate (glm53_flash.md §2.3 step 7).
//
//   ô = o r,  r = (mean_d o² + eps)^(−1/2)      y = w ô σ(g)
// Everything in the accumulator, one rounding at the end; w [d] is shared by all heads. Backward:
//   a = w σ(g) dy      do = r (a − ô mean_d(a ô))      dg = dy w ô σ(1−σ)      dw = Σ over tokens and heads of dy ô σ
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::gated_rms_norm {

struct Shape {
  int64_t b, t, h, d;
  double eps;
  explicit Shape(const Axes& axes) : b(axes["b"]), t(axes["t"]), h(axes["h"]), d(axes["d"]), eps(axes.real("eps")) {}
  int64_t rows() const { return b * t * h; }
};

struct Tensors {
  using Shape = gated_rms_norm::Shape;
  static constexpr const char* kComponent = "gated_rms_norm";

  TensorView x, gate, w;        // b t h d · b t h d · d (accumulator)
  TensorView y, d_y;            // b t h d
  TensorView dx, dgate, dw;     // b t h d · b t h d · d (accumulator)

  static std::vector<FieldOf<Tensors>> fields();
};

}  // namespace megatoken::gated_rms_norm
