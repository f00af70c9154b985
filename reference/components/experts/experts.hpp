// experts: dispatch, grouped MLP, combine, and the shared expert (glm53_flash.md §2.7, §2.8).
//
//   y_t = Σ_slot weight · Down_e h,  h = g' σ(g') u',  (g, u) = the two halves of GateUp_e x_t, clamped as in swiglu
//       + Shared(x_t)                                              (with axis shared; weight 1)
// A slot with id −1 is empty. Experts without a token have zero gradients.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::experts {

struct Shape {
  int64_t b, t, c, e, k, f;  // experts, slots of a token, inner width of an expert
  bool shared;
  double limit;
  explicit Shape(const Axes& a)
      : b(a["b"]), t(a["t"]), c(a["c"]), e(a["e"]), k(a["k"]), f(a["f"]), shared(a["shared"] != 0), limit(a.real("limit")) {}
  int64_t rows() const { return b * t; }
  int64_t slots() const { return k + (shared ? 1 : 0); }
};

struct Tensors {
  using Shape = experts::Shape;
  static constexpr const char* kComponent = "experts";

  TensorView x, id, weight;                                   // b t c · b t k (int32) · b t k (accumulator)
  TensorView gate_up, down, shared_gate_up, shared_down;      // e 2 f c (gate rows, then up rows) · e c f · 2 f c · c f
  TensorView y, d_y;                                          // b t c
  TensorView dx, dweight, dgate_up, ddown, dshared_gate_up, dshared_down;  // parameter gradients in the accumulator

  static std::vector<FieldOf<Tensors>> fields();
};

/// Throws a usage error that names the first id outside −1 … e−1. Host tensors.
void check_ids(const Shape& shape, const Tensors& tensors);
/// Per token and slot: g and u (forward), and also the gradients of both (backward).
int64_t workspace_bytes(const Shape& shape, DType dtype, Phase phase);

}  // namespace megatoken::experts
