// pool_keys: index keys, normalised and pooled by a learned gate (glm53_flash.md §2.5, dsa.md §1.2).
//
//   n_i = weight (k_i − mean k_i) r_i + bias,   r_i = (var k_i + eps)^(−1/2)            LayerNorm of every token's key
//   π_s = softmax over the pool's slots s of (gate_{f+s} + ape_s), channel by channel
//   y_p = Σ_s π_s n_{f+s}                       for the pool p with first token f; see pools.hpp for the grid and its rows
// Rows without a pool are 0. Backward, with dy of the pool of each token (0 for tokens in no complete pool):
//   dn = π dy,   dgate = π (n − y) dy,   dape_s = Σ over pools of dgate,   dweight = Σ dn x̂,   dbias = Σ dn,
//   dk = r (a − mean a − x̂ mean(a x̂)),   a = weight dn,   x̂ = (k − mean) r
// Rounding: everything in the accumulator, y rounded once; with rounding = probabilities π is first rounded to the case's dtype.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::pool_keys {

struct Shape {
  int64_t b, t, d, pool;
  double eps;
  bool round_probabilities;
  explicit Shape(const Axes& a) : b(a["b"]), t(a["t"]), d(a["d"]), pool(a["pool"]), eps(a.real("eps")), round_probabilities(a["rounding"] == 1) {}
  int64_t rows() const { return t / pool; }
};

struct Tensors {
  using Shape = pool_keys::Shape;
  static constexpr const char* kComponent = "pool_keys";

  TensorView k, gate;                  // b t d, before the norm · b t d
  TensorView ape, weight, bias;        // pool d · d · d (accumulator)
  TensorView document;                 // b t, int32; tokens of a document are consecutive, −1 is padding
  TensorView y, d_y;                   // b t/pool d
  TensorView dk, d_gate;               // b t d
  TensorView d_ape, d_weight, d_bias;  // pool d · d · d (accumulator)

  static std::vector<FieldOf<Tensors>> fields();
};

/// Mean and inverse deviation of every key.
int64_t workspace_bytes(const Shape& shape, DType dtype, Phase phase);

}  // namespace megatoken::pool_keys
