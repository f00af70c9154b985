// gated_rms_norm: the formulas of gated_rms_norm.hpp, one row (token and head) a step.
#pragma once
#include <cmath>

#include "reference/components/gated_rms_norm/gated_rms_norm.hpp"
#include "reference/core/host_device.hpp"

namespace megatoken::gated_rms_norm {

/// One (b, t, h) row of the inputs.
template <class T>
struct Row {
  using Acc = Accumulator<T>;
  Elements<const T, 4> x, gate, d_y;
  Elements<const Acc, 1> w;
  int64_t t, h, d;
  double eps;

  Row(const Shape& s, const Tensors& v, bool backward)
      : x(v.x.elements<const T, 4>()), gate(v.gate.elements<const T, 4>()), w(v.w.elements<const Acc, 1>()), t(s.t), h(s.h), d(s.d), eps(s.eps) {
    if (backward) d_y = v.d_y.elements<const T, 4>();
  }
  template <class E>
  MEGATOKEN_HD auto& at(const E& tensor, int64_t row, int64_t j) const { return tensor(row / (t * h), row / h % t, row % h, j); }
  MEGATOKEN_HD Acc value(int64_t row, int64_t j) const { return static_cast<Acc>(at(x, row, j)); }
  MEGATOKEN_HD Acc sigma(int64_t row, int64_t j) const { return 1 / (1 + std::exp(-static_cast<Acc>(at(gate, row, j)))); }
  MEGATOKEN_HD Acc dy(int64_t row, int64_t j) const { return static_cast<Acc>(at(d_y, row, j)); }
  MEGATOKEN_HD Acc inverse_rms(int64_t row) const {
    Acc sum = 0;
    for (int64_t j = 0; j < d; ++j) sum += value(row, j) * value(row, j);
    return 1 / std::sqrt(sum / static_cast<Acc>(d) + static_cast<Acc>(eps));
  }
};

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Row<T> in(s, v, false);
  const auto y = v.y.elements<T, 4>();
  loop(s.rows(), "gated_rms_norm forward", [=] MEGATOKEN_HD(int64_t row) {
    const Acc r = in.inverse_rms(row);
    for (int64_t j = 0; j < in.d; ++j) in.at(y, row, j) = T(in.w(j) * in.value(row, j) * r * in.sigma(row, j));
  });
}

template <class T, class Loop>
void backward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Row<T> in(s, v, true);
  const auto dx = v.dx.elements<T, 4>(), dgate = v.dgate.elements<T, 4>();
  const auto dw = v.dw.elements<Acc, 1>();
  const int64_t rows = s.rows();
  loop(rows, "gated_rms_norm dx dgate", [=] MEGATOKEN_HD(int64_t row) {
    const Acc r = in.inverse_rms(row);
    Acc mean = 0;
    for (int64_t j = 0; j < in.d; ++j) mean += in.w(j) * in.sigma(row, j) * in.dy(row, j) * in.value(row, j) * r;
    mean /= static_cast<Acc>(in.d);
    for (int64_t j = 0; j < in.d; ++j) {
      const Acc hat = in.value(row, j) * r, sigma = in.sigma(row, j);
      in.at(dx, row, j) = T(r * (in.w(j) * sigma * in.dy(row, j) - hat * mean));
      in.at(dgate, row, j) = T(in.dy(row, j) * in.w(j) * hat * sigma * (1 - sigma));
    }
  });
  loop(in.d, "gated_rms_norm dw", [=] MEGATOKEN_HD(int64_t j) {
    Acc sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += in.dy(row, j) * in.value(row, j) * in.inverse_rms(row) * in.sigma(row, j);
    dw(j) = sum;
  });
}

}  // namespace megatoken::gated_rms_norm
