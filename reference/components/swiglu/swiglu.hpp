// swiglu: the clamped gated unit of every MLP (glm53_flash.md §2.7).
//
//   g' = min(gate, limit)    u' = clip(up, −limit, limit)    y = g' σ(g') u'
// The gate is clamped above only, up on both sides; limit 0 means no clamp. Backward:
//   dgate = dy u' σ(g')(1 + g'(1−σ(g'))) [gate ≤ limit]      dup = dy g' σ(g') [−limit ≤ up ≤ limit]
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::swiglu {

struct Shape {
  int64_t b, t, c;
  double limit;
  explicit Shape(const Axes& axes) : b(axes["b"]), t(axes["t"]), c(axes["c"]), limit(axes.real("limit")) {}
};

struct Tensors {
  using Shape = swiglu::Shape;
  static constexpr const char* kComponent = "swiglu";

  TensorView gate, up, y, d_y, dgate, dup;  // b t c each

  static std::vector<FieldOf<Tensors>> fields();
};

}  // namespace megatoken::swiglu
