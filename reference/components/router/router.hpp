// router: which experts a token goes to, and with what weight (glm53_flash.md §2.8).
//
//   s = σ(x Wᵀ)                     in the accumulator, both operands widened
//   chosen: the k largest of s + bias, higher first, ties to the lower expert; the bias has no gradient
//   weight_e = factor · s_e / (Σ_chosen s + 1e-20)           from the unbiased scores
// Backward: for chosen e, dl_e = s_e(1−s_e) (factor/Z)(dw_e − Σ_j dw_j w_j / factor); nothing for the others.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::router {

struct Shape {
  int64_t b, t, c, e, k;  // experts, chosen
  double factor;
  explicit Shape(const Axes& a) : b(a["b"]), t(a["t"]), c(a["c"]), e(a["e"]), k(a["k"]), factor(a.real("factor")) {}
  int64_t rows() const { return b * t; }
};

struct Tensors {
  using Shape = router::Shape;
  static constexpr const char* kComponent = "router";

  TensorView x, w, bias;            // b t c · e c · e (accumulator)
  TensorView id, weight;            // b t k: int32, best first · accumulator
  TensorView d_weight, dx, dw;      // b t k (accumulator) · b t c · e c (accumulator)

  static std::vector<FieldOf<Tensors>> fields();
};

/// Scores in forward; scores and their gradients in backward: rows e each.
int64_t workspace_bytes(const Shape& shape, DType dtype, Phase phase);

}  // namespace megatoken::router
