// short_conv: causal depthwise convolution of a few taps, then SiLU, over packed documents.
//
//   z_i = Σ_{j<width} w_j · x_{i−(width−1)+j}      per channel; w_{width−1} multiplies the token itself
//   y_i = z_i · σ(z_i)
// A tap reads a row only if that row lies in the same document; before a document's first token there are zeros.
// Backward: dz = dy · σ(z)(1 + z(1−σ(z))),  dx_i = Σ_j w_j dz_{i+(width−1)−j},  dw_j = Σ_i dz_i x_{i−(width−1)+j}.
//
// With axis halo (= width − 1) rows are carried: `history` stands in front of token 0 and belongs to its document;
// `final_history` holds the halo rows that end at the last real token, zeros where they belong to an earlier document.
// So a sequence may be cut anywhere, even into shards shorter than the halo, and the cuts leave no trace.
// Documents are contiguous; document −1 is padding: y = 0, no gradient.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::short_conv {

struct Shape {
  int64_t b, t, c, width;  // batch, tokens, channels, taps
  int64_t halo;            // rows carried in and out: 0 or width − 1
  int64_t docs;

  explicit Shape(const Axes& axes);
};

struct Tensors {
  using Shape = short_conv::Shape;
  static constexpr const char* kComponent = "short_conv";

  TensorView x, w;                     // b t c · c width (accumulator)
  TensorView document;                 // b t, int32
  TensorView history, final_history;   // b halo c
  TensorView y;                        // b t c
  TensorView d_y, d_final_history;     // upstream gradients
  TensorView dx, dw, d_history;        // dw: accumulator

  static std::vector<FieldOf<Tensors>> fields();
};

}  // namespace megatoken::short_conv
