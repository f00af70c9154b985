// kda: Kimi Delta Attention, a linear-attention recurrence with a decay per channel and a delta rule (arXiv 2510.26692).
// Per batch row and value head, state S [d, dv], S_0 = initial_state or 0:
//
//   S'_t = Diag(e^{g_t}) S_{t−1}                        decay first
//   S_t  = S'_t + β_t k_t (v_t − S'_tᵀ k_t)ᵀ            delta rule on the decayed state
//   o_t  = scale · S_tᵀ q_t                             read after the update
// What the inputs become before that, each an option (axis in brackets):
//   q, k  x / √(Σx² + eps)                              [l2norm=1]; eps adds to the sum, not the mean
//   g     the input, a log-decay ≤ 0                    [gate=given]
//         −e^{A_log} · softplus(x + dt_bias)            [gate=softplus], no lower bound
//         lower_bound · σ(e^{A_log} (x + dt_bias))      [gate=bounded]; the bound multiplies, it does not clamp
//   β     the input | σ(x) | 2σ(x)                      [beta=given, sigmoid, doubled]
//
// Heads: h query/key heads, each shared by `group` value heads; [h, group] is the usual value-head axis hv = h·group, so
// value head hv reads query/key head hv / group. v, g, β, o, S, A_log, dt_bias belong to value heads.
// Documents: the state starts from zero where document_t ≠ document_{t−1}. With carry=1, initial_state stands in front of
// token 0 and belongs to its document, and final_state is the state after the last real token. Document −1 is padding:
// o = 0, no gradient, and the state passes by. So a sequence may be cut anywhere (initial_state of a shard that starts a
// document must then be zero). A shorter name for the adjoint of S: dS.
// Backward (from the last token to the first, dS = dfinal_state at the end):
//   dS += scale q do ᵀ;  dq = scale S do;  du = dSᵀ k;  dk = dS u − S' dr;  dβ = du·r;  dr = dv = β du    (r = v − S'ᵀk, u = βr)
//   dS' = dS − k drᵀ;    dg = Σ_v dS' ∘ S';  dS ← Diag(e^g) dS'
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::kda {

enum class Gate : int64_t { Given, Softplus, Bounded };
enum class Beta : int64_t { Given, Sigmoid, Doubled };

struct Shape {
  int64_t b, t, h, group, d, dv;  // batch, tokens, query/key heads, value heads per query/key head, key width, value width
  int64_t docs;
  bool carry;                     // initial_state and final_state are present
  Gate gate;
  Beta beta;
  bool l2norm;
  double lower_bound, eps, scale; // axis `scale` 0 means 1/√d

  explicit Shape(const Axes& axes);
};

struct Tensors {
  using Shape = kda::Shape;
  static constexpr const char* kComponent = "kda";

  TensorView q, k, v;                                   // b t h d · b t h d · b t h group dv
  TensorView g, beta;                                   // b t h group d · b t h group
  TensorView a_log, dt_bias;                            // h group · h group d, accumulator
  TensorView document;                                  // b t, int32
  TensorView initial_state, final_state;                // b h group d dv, accumulator
  TensorView o;                                         // b t h group dv
  TensorView d_o, d_final_state;                        // upstream gradients
  TensorView dq, dk, dv, dg, d_beta;
  TensorView d_a_log, d_dt_bias, d_initial_state;       // accumulator

  static std::vector<FieldOf<Tensors>> fields();
};

/// Consecutive rows [begin, end) of one document; the state enters as initial_state at row 0, as zero elsewhere.
struct Run {
  int64_t begin, end;
};
std::vector<Run> document_runs(const Elements<const int32_t, 2>& document, int64_t b, int64_t t);  // padding left out

}  // namespace megatoken::kda
