// adamw: one optimizer step on fp32 master weights, with decoupled decay, bias correction and global-norm clipping.
//
//   n = ‖grad‖₂,  ĝ = grad · min(1, clip / (n + 1e-6))          (clip 0: no clipping)
//   m' = β1 m + (1−β1) ĝ        v' = β2 v + (1−β2) ĝ²
//   p' = p (1 − lr·decay) − lr · m̂ / (√v̂ + eps),   m̂ = m'/(1−β1^step),  v̂ = v'/(1−β2^step)
// Loshchilov and Hutter, 2019; the clip factor is that of common trainers. weight' is p' rounded to the case's dtype.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::adamw {

struct Shape {
  int64_t n, step;
  double lr, beta1, beta2, eps, decay, clip;
  explicit Shape(const Axes& a)
      : n(a["n"]), step(a["step"]), lr(a.real("lr")), beta1(a.real("beta1")), beta2(a.real("beta2")), eps(a.real("eps")), decay(a.real("decay")), clip(a.real("clip")) {}
};

struct Tensors {
  using Shape = adamw::Shape;
  static constexpr const char* kComponent = "adamw";

  TensorView grad;                                // n, case dtype
  TensorView master, m, v;                        // n, accumulator
  TensorView weight_out, master_out, m_out, v_out;  // n: case dtype · accumulator each
  TensorView norm;                                // 1, accumulator: ‖grad‖ before clipping

  static std::vector<FieldOf<Tensors>> fields();
};

}  // namespace megatoken::adamw
