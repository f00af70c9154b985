// index_topk: which keys a query attends to (glm53_flash.md §2.5, dsa.md §1.2–1.3). A selection, so nothing has a gradient.
//
//   I_p = scale · Σ_h w_h ReLU(q_h · k_p)            score of pool p, in the accumulator; the sum over d, then over h, then scale
//   candidates: pools of the query's document whose last token is not after the query (grid of pools: pool_keys/pools.hpp)
//   chosen: the topk candidates that come first in the order (higher score, then lower id); all of them when there are fewer
//   id: the tokens of the chosen pools and the query's tail, ascending; then −1
// Tail: the tokens of the query's document after its last complete pool, up to the query itself: (i + 1) mod pool of them, i counted
// from the document's first token. Always selected, so pool = 1 is a plain top-k of tokens without a tail.
// The positive scale stands outside of the sum: it cannot change the order, and sums of few-bit inputs stay exact. +0 equals −0; NaN comes last.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::index_topk {

struct Shape {
  int64_t b, t, s, h, d, pool, topk;  // queries, key tokens, index heads, width, tokens in a pool, pools chosen
  double scale;                       // axis `scale` 0 means 1/√d
  explicit Shape(const Axes& axes);
  int64_t rows() const { return s / pool; }
  int64_t width() const { return topk * pool + pool - 1; }
};

struct Tensors {
  using Shape = index_topk::Shape;
  static constexpr const char* kComponent = "index_topk";

  TensorView q, w, k;               // b t h d · b t h (accumulator, signed) · b s/pool d
  TensorView position, document;    // t: the key token that each query is · b s: −1 is padding, which selects nothing; int32
  TensorView id, score;             // b t topk*pool+pool-1, int32 · b t topk (accumulator): scores of the chosen pools, ascending id, then −∞

  static std::vector<FieldOf<Tensors>> fields();
};

/// Throws when a query's position is not a key token. Host tensors.
void check_positions(const Shape& shape, const Tensors& tensors);

}  // namespace megatoken::index_topk
