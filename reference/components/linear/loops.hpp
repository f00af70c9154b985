// linear: the formulas of linear.hpp, one element of a result a step.
#pragma once
#include "reference/components/linear/linear.hpp"
#include "reference/core/host_device.hpp"

namespace megatoken::linear {

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const auto x = v.x.elements<const T, 3>();
  const auto w = v.w.elements<const T, 2>();
  const auto bias = s.bias ? v.bias.elements<const T, 1>() : Elements<const T, 1>{};
  const auto y = v.y.elements<T, 3>();
  const int64_t t = s.t, c = s.c, o = s.o;
  const bool has_bias = s.bias;
  loop(s.rows() * o, "linear forward", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / o, k = item % o;
    Acc sum = has_bias ? static_cast<Acc>(bias(k)) : Acc{0};
    for (int64_t j = 0; j < c; ++j) sum += static_cast<Acc>(x(row / t, row % t, j)) * static_cast<Acc>(w(k, j));
    y(row / t, row % t, k) = T(sum);
  });
}

template <class T, class Loop>
void backward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const auto x = v.x.elements<const T, 3>(), d_y = v.d_y.elements<const T, 3>();
  const auto w = v.w.elements<const T, 2>();
  const auto dx = v.dx.elements<T, 3>();
  const auto dw = v.dw.elements<Acc, 2>();
  const int64_t rows = s.rows(), t = s.t, c = s.c, o = s.o;
  loop(rows * c, "linear dx", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / c, j = item % c;
    Acc sum = 0;
    for (int64_t k = 0; k < o; ++k) sum += static_cast<Acc>(d_y(row / t, row % t, k)) * static_cast<Acc>(w(k, j));
    dx(row / t, row % t, j) = T(sum);
  });
  loop(o * c, "linear dw", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t k = item / c, j = item % c;
    Acc sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += static_cast<Acc>(d_y(row / t, row % t, k)) * static_cast<Acc>(x(row / t, row % t, j));
    dw(k, j) = sum;
  });
  if (!s.bias) return;
  const auto dbias = v.dbias.elements<Acc, 1>();
  loop(o, "linear dbias", [=] MEGATOKEN_HD(int64_t k) {
    Acc sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += static_cast<Acc>(d_y(row / t, row % t, k));
    dbias(k) = sum;
  });
}

}  // namespace megatoken::linear
