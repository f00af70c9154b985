// linear_cross_entropy: the output projection and the loss in one (parallel.md §2.10, §3.2).
//
//   logits = x Wᵀ + bias      logprob_i = logits[label_i] − lse_i      loss = −Σ logprob_i over labels ≠ −100
// The loss is a sum: whoever averages divides by the count of valid labels of the whole step. logprob is an output with a
// gradient of its own (a weight per token). With g_i = dlogprob_i − dloss, and 0 for ignored tokens:
//   dlogits = g_i (onehot(label_i) − softmax)      dx = dlogits W      dW = dlogitsᵀ x      dbias = Σ dlogits
// An ignored token has logprob 0. A batch of ignored tokens has loss 0 and zero gradients.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::linear_cross_entropy {

inline constexpr int32_t kIgnored = -100;

struct Shape {
  int64_t b, t, c, v;
  bool bias;
  explicit Shape(const Axes& a) : b(a["b"]), t(a["t"]), c(a["c"]), v(a["v"]), bias(a["bias"] != 0) {}
  int64_t rows() const { return b * t; }
};

struct Tensors {
  using Shape = linear_cross_entropy::Shape;
  static constexpr const char* kComponent = "linear_cross_entropy";

  TensorView x, w, bias, label;              // b t c · v c · v (with axis bias) · b t int32
  TensorView loss, logprob;                  // 1 · b t; accumulator
  TensorView d_loss, d_logprob;              // 1 · b t; accumulator
  TensorView dx, dw, dbias;                  // b t c · v c · v; parameter gradients in the accumulator

  static std::vector<FieldOf<Tensors>> fields();
};

/// Throws a usage error that names the first label that is neither −100 nor in [0, v). Host tensors.
void check_labels(const Shape& shape, const Tensors& tensors);
/// Logits, rows v: what naive code holds and tiled code must not.
int64_t workspace_bytes(const Shape& shape, DType dtype, Phase phase);

}  // namespace megatoken::linear_cross_entropy
