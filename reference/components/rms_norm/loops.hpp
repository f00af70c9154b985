// rms_norm: the formulas of rms_norm.hpp, one row a step.
#pragma once
#include <cmath>

#include "reference/components/rms_norm/rms_norm.hpp"
#include "reference/core/host_device.hpp"

namespace megatoken::rms_norm {

/// (mean x² + eps)^(−1/2) of one row.
template <class T>
MEGATOKEN_HD Accumulator<T> inverse_rms(const Elements<const T, 3>& x, int64_t b, int64_t i, int64_t c, double eps) {
  using Acc = Accumulator<T>;
  Acc sum = 0;
  for (int64_t j = 0; j < c; ++j) sum += static_cast<Acc>(x(b, i, j)) * static_cast<Acc>(x(b, i, j));
  return 1 / std::sqrt(sum / static_cast<Acc>(c) + static_cast<Acc>(eps));
}

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const auto x = v.x.elements<const T, 3>();
  const auto w = v.w.elements<const T, 1>();
  const auto y = v.y.elements<T, 3>();
  const int64_t t = s.t, c = s.c;
  const double eps = s.eps;
  loop(s.b * t, "rms_norm forward", [=] MEGATOKEN_HD(int64_t row) {
    const int64_t b = row / t, i = row % t;
    const Acc r = inverse_rms<T>(x, b, i, c, eps);
    for (int64_t j = 0; j < c; ++j) y(b, i, j) = T(static_cast<Acc>(w(j)) * static_cast<Acc>(T(static_cast<Acc>(x(b, i, j)) * r)));
  });
}

template <class T, class Loop>
void backward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const auto x = v.x.elements<const T, 3>(), d_y = v.d_y.elements<const T, 3>();
  const auto w = v.w.elements<const T, 1>();
  const auto dx = v.dx.elements<T, 3>();
  const auto dw = v.dw.elements<Acc, 1>();
  const int64_t rows = s.b * s.t, t = s.t, c = s.c;
  const double eps = s.eps;
  loop(rows, "rms_norm dx", [=] MEGATOKEN_HD(int64_t row) {
    const int64_t b = row / t, i = row % t;
    const Acc r = inverse_rms<T>(x, b, i, c, eps);
    Acc mean = 0;
    for (int64_t j = 0; j < c; ++j) mean += static_cast<Acc>(w(j)) * static_cast<Acc>(d_y(b, i, j)) * static_cast<Acc>(x(b, i, j)) * r;
    mean /= static_cast<Acc>(c);
    for (int64_t j = 0; j < c; ++j) dx(b, i, j) = T(r * (static_cast<Acc>(w(j)) * static_cast<Acc>(d_y(b, i, j)) - static_cast<Acc>(x(b, i, j)) * r * mean));
  });
  loop(c, "rms_norm dw", [=] MEGATOKEN_HD(int64_t j) {
    Acc sum = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t b = row / t, i = row % t;
      sum += static_cast<Acc>(d_y(b, i, j)) * static_cast<Acc>(T(static_cast<Acc>(x(b, i, j)) * inverse_rms<T>(x, b, i, c, eps)));
    }
    dw(j) = sum;
  });
}

}  // namespace megatoken::rms_norm
