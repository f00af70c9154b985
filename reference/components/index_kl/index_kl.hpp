// index_kl: the loss that trains the indexer (dsa.md §2.4): for each query, the divergence of the index scores' softmax from what the
// main attention really looked at, over the selected pools.
//
//   t_p      = Σ_h Σ_{m in pool p} e^{logit_hpm − lse_h}           mass of the pool in the joint softmax, summed over heads
//   target_p = t_p / Σ_p' t_p'                                    conditional on the selected pools; t is scaled by its largest term, so no ε
//   q        = softmax of score over the selected pools
//   loss     = coefficient · Σ_p target_p (ln target_p − ln q_p)   0 ln 0 = 0
//   dscore   = dloss · coefficient · (q − target)
// lse is that of the main attention over all its keys, the tail included: heads whose mass lies elsewhere count less. Logits are the
// main attention's scaled q·k of the selected keys, one pool after the other; logits and lse are detached, they get no gradient.
// Rows without pools, and rows whose pools hold no mass at all, have loss 0 and gradient 0; one pool gives exactly 0.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::index_kl {

struct Shape {
  int64_t b, t, h, topk, pool;
  double coefficient;
  explicit Shape(const Axes& a) : b(a["b"]), t(a["t"]), h(a["h"]), topk(a["topk"]), pool(a["pool"]), coefficient(a.real("coefficient")) {}
};

struct Tensors {
  using Shape = index_kl::Shape;
  static constexpr const char* kComponent = "index_kl";

  TensorView logit, lse;        // b t h topk*pool · b h t (accumulator)
  TensorView score, count;      // b t topk (accumulator) · b t, int32: pools selected; entries beyond are never read
  TensorView loss, d_loss;      // b t (accumulator)
  TensorView d_score;           // b t topk (accumulator); 0 beyond count

  static std::vector<FieldOf<Tensors>> fields();
};

/// Throws when a count is not in [0, topk]. Host tensors.
void check_counts(const Shape& shape, const Tensors& tensors);

}  // namespace megatoken::index_kl
