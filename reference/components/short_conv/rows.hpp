// short_conv: the formulas of short_conv.hpp for one element, for the loops of cpu.cpp and the threads of gpu.cu.
// Row numbers run from −halo (history) to t − 1. All arithmetic is in the accumulator; results are rounded once by the caller.
#pragma once
#include <cmath>

#include "reference/components/short_conv/short_conv.hpp"
#include "reference/core/host_device.hpp"

namespace megatoken::short_conv {

template <class T>
struct Rows {
  using Acc = Accumulator<T>;
  int64_t t, width, halo;
  Elements<const T, 3> x, history, d_y, d_final_history;
  Elements<const Acc, 2> w;
  Elements<const int32_t, 2> document;

  Rows(const Shape& shape, const Tensors& v, bool backward)
      : t(shape.t), width(shape.width), halo(shape.halo), x(v.x.elements<const T, 3>()), w(v.w.elements<const Acc, 2>()),
        document(v.document.elements<const int32_t, 2>()) {
    if (halo > 0) history = v.history.elements<const T, 3>();
    if (backward) d_y = v.d_y.elements<const T, 3>();
    if (backward && halo > 0) d_final_history = v.d_final_history.elements<const T, 3>();
  }

  /// History belongs to the document that goes on at token 0.
  MEGATOKEN_HD int32_t document_of(int64_t b, int64_t row) const { return t == 0 ? 0 : document(b, row < 0 ? 0 : row); }
  MEGATOKEN_HD bool connected(int64_t b, int64_t early, int64_t late) const {
    return early >= -halo && document_of(b, early) == document_of(b, late);
  }
  MEGATOKEN_HD Acc input(int64_t b, int64_t row, int64_t c) const {
    return static_cast<Acc>(row < 0 ? history(b, halo + row, c) : x(b, row, c));
  }
  /// Last row that is not padding; −1 when there is none.
  MEGATOKEN_HD int64_t last_real(int64_t b) const {
    int64_t row = t - 1;
    while (row >= 0 && document(b, row) < 0) --row;
    return row;
  }

  MEGATOKEN_HD Acc z(int64_t b, int64_t row, int64_t c) const {
    Acc sum = 0;
    for (int64_t j = 0; j < width; ++j)
      if (const int64_t from = row - (width - 1) + j; connected(b, from, row)) sum += w(c, j) * input(b, from, c);
    return sum;
  }
  MEGATOKEN_HD static Acc sigmoid(Acc value) { return Acc{1} / (Acc{1} + std::exp(-value)); }

  MEGATOKEN_HD Acc y(int64_t b, int64_t row, int64_t c) const {
    if (document(b, row) < 0) return 0;
    const Acc value = z(b, row, c);
    return value * sigmoid(value);
  }
  /// Row r of final_history.
  MEGATOKEN_HD Acc final_history(int64_t b, int64_t r, int64_t c) const {
    const int64_t last = last_real(b), row = last - halo + 1 + r;
    return connected(b, row, last) ? input(b, row, c) : Acc{0};
  }

  MEGATOKEN_HD Acc dz(int64_t b, int64_t row, int64_t c) const {
    if (document(b, row) < 0) return 0;
    const Acc value = z(b, row, c), s = sigmoid(value);
    return static_cast<Acc>(d_y(b, row, c)) * s * (1 + value * (1 - s));
  }
  /// Gradient of row −halo … t − 1, through the taps and through final_history.
  MEGATOKEN_HD Acc d_input(int64_t b, int64_t row, int64_t c) const {
    Acc sum = 0;
    for (int64_t j = 0; j < width; ++j)
      if (const int64_t to = row + (width - 1) - j; to >= 0 && to < t && connected(b, row, to)) sum += w(c, j) * dz(b, to, c);
    const bool in_final_history = halo > 0 && (row + halo >= t || document(b, row + halo) < 0);  // else a later real token hides it
    if (!in_final_history) return sum;
    const int64_t last = last_real(b), r = row - (last - halo + 1);
    return r >= 0 && r < halo && connected(b, row, last) ? sum + static_cast<Acc>(d_final_history(b, r, c)) : sum;
  }
  /// What batch row b adds to dw(c, j).
  MEGATOKEN_HD Acc d_weight(int64_t b, int64_t c, int64_t j) const {
    Acc sum = 0;
    for (int64_t row = 0; row < t; ++row)
      if (const int64_t from = row - (width - 1) + j; connected(b, from, row)) sum += dz(b, row, c) * input(b, from, c);
    return sum;
  }
};

}  // namespace megatoken::short_conv
