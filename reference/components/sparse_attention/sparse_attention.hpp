// sparse_attention: softmax attention over keys given by their ids (glm53_flash.md §2.4, dsa.md §1.1, §2.3).
//
//   S_j = scale · q · k_{id_j}            over the slots j with id_j ≥ 0; −1 is an empty slot; a repeated id counts each time
//   lse = ln Σ_j e^{S_j}                  natural log; a row without keys has o = 0 and lse = −∞
//   o   = Σ_j e^{S_j − lse} v_{id_j}
// direct = 0, the absorbed form: v is k, so one latent row is key and value (hk = 1 in the model, q = W_uk^T q_nope, and o still waits for W_uv).
// direct = 1: v is a tensor of its own, as in the form with keys and values of each head (hk = h). Both forms are one contract because
// absorbing is a change of q and o outside of it, so that a test can hold one against the other.
// Backward:  P = e^{S − lse},  Δ = do · o − dlse,  dS = scale · P (do · v_{id_j} − Δ)
//   dq = Σ_j dS_j k_{id_j};   dk_x = Σ dS q,  dv_x = Σ P do  over all (query, slot) with id = x, queries and slots ascending; absorbed: dk has both.
// scale follows the width of a head before absorption, never the latent's: give it. Ids carry no gradient.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::sparse_attention {

struct Shape {
  int64_t b, t, s, h, hk, d, dv, n;  // queries, key tokens, heads, key heads, widths, slots
  bool direct;
  double scale;                      // axis `scale` 0 means 1/√d
  explicit Shape(const Axes& axes);
  int64_t group() const { return h / hk; }
};

struct Tensors {
  using Shape = sparse_attention::Shape;
  static constexpr const char* kComponent = "sparse_attention";

  TensorView q, k, v;           // b t h d · b s hk d · b s hk dv, absent unless direct
  TensorView id;                // b t n, int32
  TensorView o, lse;            // b t h dv · b h t (accumulator)
  TensorView d_o, d_lse;        // upstream gradients
  TensorView dq, dk, dv;        // dv absent unless direct

  static std::vector<FieldOf<Tensors>> fields();
};

/// Throws for ids that are neither −1 nor a key token. Host tensors.
void check_ids(const Shape& shape, const Tensors& tensors);
/// Backward: Δ of every row, and the inverted index from keys to slots.
int64_t workspace_bytes(const Shape& shape, DType dtype, Phase phase);

}  // namespace megatoken::sparse_attention
