// swiglu: the formulas of swiglu.hpp, one element a step; arithmetic in the accumulator, one rounding.
#pragma once
#include <cmath>

#include "reference/components/swiglu/swiglu.hpp"
#include "reference/core/host_device.hpp"

namespace megatoken::swiglu {

template <class Acc>
MEGATOKEN_HD Acc clamp(Acc value, Acc low, Acc high) { return value < low ? low : value > high ? high : value; }

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const auto gate = v.gate.elements<const T, 3>(), up = v.up.elements<const T, 3>();
  const auto y = v.y.elements<T, 3>();
  const int64_t t = s.t, c = s.c;
  const Acc limit = s.limit > 0 ? static_cast<Acc>(s.limit) : Acc(INFINITY);
  loop(s.b * t * c, "swiglu forward", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (t * c), i = item / c % t, j = item % c;
    const Acc g = clamp(static_cast<Acc>(gate(b, i, j)), -Acc(INFINITY), limit), u = clamp(static_cast<Acc>(up(b, i, j)), -limit, limit);
    y(b, i, j) = T(g / (1 + std::exp(-g)) * u);
  });
}

template <class T, class Loop>
void backward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const auto gate = v.gate.elements<const T, 3>(), up = v.up.elements<const T, 3>(), d_y = v.d_y.elements<const T, 3>();
  const auto dgate = v.dgate.elements<T, 3>(), dup = v.dup.elements<T, 3>();
  const int64_t t = s.t, c = s.c;
  const Acc limit = s.limit > 0 ? static_cast<Acc>(s.limit) : Acc(INFINITY);
  loop(s.b * t * c, "swiglu backward", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (t * c), i = item / c % t, j = item % c;
    const Acc raw_gate = static_cast<Acc>(gate(b, i, j)), raw_up = static_cast<Acc>(up(b, i, j)), dy = static_cast<Acc>(d_y(b, i, j));
    const Acc g = clamp(raw_gate, -Acc(INFINITY), limit), u = clamp(raw_up, -limit, limit), sigma = 1 / (1 + std::exp(-g));
    dgate(b, i, j) = T(raw_gate <= limit ? dy * u * sigma * (1 + g * (1 - sigma)) : Acc{0});
    dup(b, i, j) = T(raw_up >= -limit && raw_up <= limit ? dy * g * sigma : Acc{0});
  });
}

}  // namespace megatoken::swiglu
