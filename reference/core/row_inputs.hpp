// Input shapes that components of independent rows share: where code that walks over rows goes wrong.
#pragma once
#include <algorithm>
#include <cmath>

#include "reference/core/component.hpp"

namespace megatoken {

/// First and last row, edges of 32-, 64- and 128-row tiles ± 1, edges of eighths: rows a tiled kernel reads wrongly or misses.
inline bool is_edge_row(int64_t row, int64_t rows) {
  const int64_t eighth = rows / 8 > 0 ? rows / 8 : 1;
  for (int64_t tile : {int64_t{32}, int64_t{64}, int64_t{128}, eighth})
    if (row % tile <= 1 || row % tile == tile - 1) return true;
  return row == 0 || row + 1 >= rows;
}

inline void scale_row(const TensorView& view, int64_t row, int64_t width, double factor) {
  for (int64_t i = row * width; i < (row + 1) * width; ++i) set_value(view, i, factor * value_at(view, i));
}

/// Edge rows get three times the size of the others, so that they rule a norm over the whole tensor.
inline void aim_rows(const TensorView& view, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row)
    if (is_edge_row(row, rows)) scale_row(view, row, width, 3);
}

/// Every fifth row, starting with the third, becomes about `size` large.
inline void dim_rows(const TensorView& view, int64_t rows, int64_t width, double size) {
  for (int64_t row = 3; row < rows; row += 5) scale_row(view, row, width, size);
}

/// Rows from 2^-9 to 2^9 in turn: powers of two, so that numbers which were exact stay exact.
inline void spread_rows(const TensorView& view, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row) scale_row(view, row, width, std::exp2(static_cast<double>(3 * (row % 7 - 3))));
}

/// Rounds to multiples of `step` up to ±`largest`. With powers of two, sums of products are then exact in fp32: a choice or a clamp
/// that hangs on them falls the same way in every precision and order of addition.
inline void quantise(const TensorView& view, double step, double largest) {
  for (int64_t i = 0, n = view.size(); i < n; ++i) set_value(view, i, std::clamp(std::round(value_at(view, i) / step) * step, -largest, largest));
}

inline Cost phase_cost(Phase phase, Cost forward, Cost backward) {
  if (phase == Phase::Forward) return forward;
  if (phase == Phase::Backward) return backward;
  return {forward.flops + backward.flops, forward.bytes + backward.bytes};
}

}  // namespace megatoken
