// attention: softmax attention with grouped key/value heads, causal or not, over packed documents.
//
//   S_ij = scale · q_i · k_j            where j is visible to i:  document equal, and position_j ≤ position_i if causal
//   lse_i = ln Σ_j e^{S_ij}             natural log; a row that sees no key has o = 0 and lse = −inf
//   o_i   = Σ_j e^{S_ij − lse_i} v_j
// Backward, with the lse and o of the whole row (so that blocks of keys are independent and add up):
//   P = e^{S − lse},  Δ_i = do_i · o_i − dlse_i,  dS = P ∘ (do vᵀ − Δ)
//   dq = scale · dS k,  dk = scale · dSᵀ q,  dv = Pᵀ do,  summed over the h/hk query heads of a key/value head
//
// Queries and keys carry their own positions and documents, so one contract serves the whole problem (s = t, equal
// positions), a block of a ring, a sample of rows, and a sample of columns. Document −1 is padding.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::attention {

struct Shape {
  int64_t b, t, s, h, hk, d, dv;  // batch, queries, keys, query heads, key/value heads, key width, value width
  int64_t docs, padding;            // packed documents · tokens at the end of every sequence that belong to none
  bool causal;
  double scale;                   // axis `scale` 0 means 1/√d

  explicit Shape(const Axes& axes);
  int64_t group() const { return h / hk; }
};

struct Tensors {
  using Shape = attention::Shape;
  static constexpr const char* kComponent = "attention";

  TensorView q, k, v;                        // b t h d · b s hk d · b s hk dv
  TensorView q_position, k_position;         // t · s, int32
  TensorView q_document, k_document;         // b t · b s, int32
  TensorView o, lse;                         // b t h dv (case dtype, or fp32 when a scheme merges blocks) · b h t (accumulator)
  TensorView d_o, d_lse;                     // upstream gradients
  TensorView dq, dk, dv;                     // case dtype, or fp32 when a scheme accumulates

  static std::vector<FieldOf<Tensors>> fields();
};

}  // namespace megatoken::attention
