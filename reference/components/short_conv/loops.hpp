// short_conv: the formulas of short_conv.hpp for one element, and the loops over elements that cpu.cpp and gpu.cu run.
// Row numbers run from −halo (history) to t − 1. All arithmetic is in the accumulator; results are rounded once, when a loop stores them.
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
  /// What batch row b adds to dw(c, j). Padding is skipped: it may hold anything, and 0 times a NaN is none.
  MEGATOKEN_HD Acc d_weight(int64_t b, int64_t c, int64_t j) const {
    Acc sum = 0;
    for (int64_t row = 0; row < t; ++row)
      if (const int64_t from = row - (width - 1) + j; document(b, row) >= 0 && connected(b, from, row)) sum += dz(b, row, c) * input(b, from, c);
    return sum;
  }
};

template <class T, class Loop>
void forward_loops(const Shape& shape, const Tensors& x, const Loop& loop) {
  const Rows<T> rows(shape, x, false);
  const int64_t t = shape.t, width_c = shape.c, halo = shape.halo;
  const auto y = x.y.elements<T, 3>();
  loop(shape.b * t * width_c, "short_conv forward", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (t * width_c), i = item / width_c % t, c = item % width_c;
    y(b, i, c) = static_cast<T>(rows.y(b, i, c));
  });
  if (halo == 0) return;
  const auto final_history = x.final_history.elements<T, 3>();
  loop(shape.b * halo * width_c, "short_conv final_history", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (halo * width_c), r = item / width_c % halo, c = item % width_c;
    final_history(b, r, c) = static_cast<T>(rows.final_history(b, r, c));
  });
}

template <class T, class Loop>
void backward_loops(const Shape& shape, const Tensors& x, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Rows<T> rows(shape, x, true);
  const int64_t batch = shape.b, t = shape.t, width_c = shape.c, halo = shape.halo, width = shape.width;
  const auto dx = x.dx.elements<T, 3>();
  loop(batch * t * width_c, "short_conv dx", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (t * width_c), i = item / width_c % t, c = item % width_c;
    dx(b, i, c) = static_cast<T>(rows.d_input(b, i, c));
  });
  const auto dw = x.dw.elements<Acc, 2>();
  loop(width_c * width, "short_conv dw", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t c = item / width, j = item % width;
    Acc sum = 0;
    for (int64_t b = 0; b < batch; ++b) sum += rows.d_weight(b, c, j);
    dw(c, j) = sum;
  });
  if (halo == 0) return;
  const auto d_history = x.d_history.elements<T, 3>();
  loop(batch * halo * width_c, "short_conv dhistory", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (halo * width_c), r = item / width_c % halo, c = item % width_c;
    d_history(b, r, c) = static_cast<T>(rows.d_input(b, r - halo, c));
  });
}

}  // namespace megatoken::short_conv
