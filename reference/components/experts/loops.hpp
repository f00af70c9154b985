// experts: the formulas of experts.hpp. The shared expert is one more slot, with weights of its own.
#pragma once
#include <cmath>

#include "reference/components/experts/experts.hpp"
#include "reference/core/host_device.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::experts {

template <class T>
struct Inputs {
  using Acc = Accumulator<T>;
  Elements<const T, 3> x, d_y;
  Elements<const int32_t, 3> id;
  Elements<const Acc, 3> weight;
  Elements<const T, 4> gate_up;
  Elements<const T, 3> down, shared_gate_up;
  Elements<const T, 2> shared_down;
  Acc *gate, *up, *d_gate, *d_up;  // rows slots f: before the clamps
  int64_t rows, t, c, k, f, slots;
  Acc limit;

  Inputs(const Shape& s, const Tensors& v, Context& context, bool backward)
      : x(v.x.elements<const T, 3>()), id(v.id.elements<const int32_t, 3>()), weight(v.weight.elements<const Acc, 3>()), gate_up(v.gate_up.elements<const T, 4>()),
        down(v.down.elements<const T, 3>()), rows(s.rows()), t(s.t), c(s.c), k(s.k), f(s.f), slots(s.slots()), limit(s.limit > 0 ? static_cast<Acc>(s.limit) : Acc(INFINITY)) {
    if (backward) d_y = v.d_y.elements<const T, 3>();
    if (s.shared) shared_gate_up = v.shared_gate_up.elements<const T, 3>(), shared_down = v.shared_down.elements<const T, 2>();
    gate = reinterpret_cast<Acc*>(context.workspace.data());
    up = gate + rows * slots * f;
    d_gate = up + rows * slots * f;
    d_up = d_gate + rows * slots * f;
  }

  /// Expert of a slot: −1 empty, −2 the shared one.
  MEGATOKEN_HD int64_t expert(int64_t row, int64_t slot) const { return slot == k ? -2 : id(row / t, row % t, slot); }
  MEGATOKEN_HD Acc factor(int64_t row, int64_t slot) const { return slot == k ? Acc{1} : weight(row / t, row % t, slot); }
  MEGATOKEN_HD Acc up_weight(int64_t e, int half, int64_t j, int64_t q) const { return static_cast<Acc>(e == -2 ? shared_gate_up(half, j, q) : gate_up(e, half, j, q)); }
  MEGATOKEN_HD Acc down_weight(int64_t e, int64_t q, int64_t j) const { return static_cast<Acc>(e == -2 ? shared_down(q, j) : down(e, q, j)); }
  MEGATOKEN_HD Acc input(int64_t row, int64_t q) const { return static_cast<Acc>(x(row / t, row % t, q)); }
  MEGATOKEN_HD Acc upstream(int64_t row, int64_t q) const { return static_cast<Acc>(d_y(row / t, row % t, q)); }

  MEGATOKEN_HD Acc clamped_gate(int64_t at) const { return gate[at] > limit ? limit : gate[at]; }
  MEGATOKEN_HD Acc clamped_up(int64_t at) const { return up[at] > limit ? limit : up[at] < -limit ? -limit : up[at]; }
  MEGATOKEN_HD Acc sigma(int64_t at) const { return 1 / (1 + std::exp(-clamped_gate(at))); }
  MEGATOKEN_HD Acc hidden(int64_t at) const { return clamped_gate(at) * sigma(at) * clamped_up(at); }
};

template <class T, class Loop>
void projection_loop(const Inputs<T>& in, const Loop& loop) {
  using Acc = Accumulator<T>;
  loop(in.rows * in.slots * in.f, "experts gate and up", [=] MEGATOKEN_HD(int64_t at) {
    const int64_t row = at / (in.slots * in.f), slot = at / in.f % in.slots, j = at % in.f, e = in.expert(row, slot);
    Acc g = 0, u = 0;
    if (e != -1)
      for (int64_t q = 0; q < in.c; ++q) {
        g += in.up_weight(e, 0, j, q) * in.input(row, q);
        u += in.up_weight(e, 1, j, q) * in.input(row, q);
      }
    in.gate[at] = g;
    in.up[at] = u;
  });
}

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& v, Context& context, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Inputs<T> in(s, v, context, false);
  projection_loop(in, loop);
  const auto y = v.y.elements<T, 3>();
  loop(in.rows * in.c, "experts down and combine", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / in.c, q = item % in.c;
    Acc sum = 0;
    for (int64_t slot = 0; slot < in.slots; ++slot) {
      const int64_t e = in.expert(row, slot);
      if (e == -1) continue;
      Acc out = 0;
      for (int64_t j = 0; j < in.f; ++j) out += in.down_weight(e, q, j) * in.hidden((row * in.slots + slot) * in.f + j);
      sum += in.factor(row, slot) * out;
    }
    y(row / in.t, row % in.t, q) = T(sum);
  });
}

template <class T, class Loop>
void backward_loops(const Shape& s, const Tensors& v, Context& context, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Inputs<T> in(s, v, context, true);
  projection_loop(in, loop);
  loop(in.rows * in.slots * in.f, "experts dgate and dup", [=] MEGATOKEN_HD(int64_t at) {
    const int64_t row = at / (in.slots * in.f), slot = at / in.f % in.slots, j = at % in.f, e = in.expert(row, slot);
    Acc dh = 0;
    if (e != -1)
      for (int64_t q = 0; q < in.c; ++q) dh += in.upstream(row, q) * in.down_weight(e, q, j);
    dh *= in.factor(row, slot);
    const Acc g = in.clamped_gate(at), sigma = in.sigma(at);
    in.d_gate[at] = e != -1 && in.gate[at] <= in.limit ? dh * in.clamped_up(at) * sigma * (1 + g * (1 - sigma)) : Acc{0};
    in.d_up[at] = e != -1 && in.up[at] <= in.limit && in.up[at] >= -in.limit ? dh * g * sigma : Acc{0};
  });
  const auto dx = v.dx.elements<T, 3>();
  const auto dweight = v.dweight.elements<Acc, 3>(), ddown = v.ddown.elements<Acc, 3>();
  const auto dgate_up = v.dgate_up.elements<Acc, 4>();
  loop(in.rows * in.c, "experts dx", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / in.c, q = item % in.c;
    Acc sum = 0;
    for (int64_t slot = 0; slot < in.slots; ++slot) {
      const int64_t e = in.expert(row, slot);
      if (e == -1) continue;
      for (int64_t j = 0; j < in.f; ++j) {
        const int64_t at = (row * in.slots + slot) * in.f + j;
        sum += in.d_gate[at] * in.up_weight(e, 0, j, q) + in.d_up[at] * in.up_weight(e, 1, j, q);
      }
    }
    dx(row / in.t, row % in.t, q) = T(sum);
  });
  loop(in.rows * in.k, "experts dweight", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / in.k, slot = item % in.k, e = in.expert(row, slot);
    Acc sum = 0;
    if (e != -1)
      for (int64_t q = 0; q < in.c; ++q) {
        Acc out = 0;
        for (int64_t j = 0; j < in.f; ++j) out += in.down_weight(e, q, j) * in.hidden((row * in.slots + slot) * in.f + j);
        sum += in.upstream(row, q) * out;
      }
    dweight(row / in.t, row % in.t, slot) = sum;
  });
  // Every parameter walks over all tokens and slots in order and adds those that used its expert.
  const int64_t experts = s.e;
  const auto shared_gate_up = s.shared ? v.dshared_gate_up.elements<Acc, 3>() : Elements<Acc, 3>{};
  const auto shared_down = s.shared ? v.dshared_down.elements<Acc, 2>() : Elements<Acc, 2>{};
  const int64_t all = experts + (s.shared ? 1 : 0);
  loop(all * 2 * in.f * in.c, "experts dgate_up", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t owner = item / (2 * in.f * in.c), half = item / (in.f * in.c) % 2, j = item / in.c % in.f, q = item % in.c;
    const int64_t e = owner == experts ? -2 : owner;
    Acc sum = 0;
    for (int64_t row = 0; row < in.rows; ++row)
      for (int64_t slot = 0; slot < in.slots; ++slot)
        if (in.expert(row, slot) == e) sum += (half == 0 ? in.d_gate : in.d_up)[(row * in.slots + slot) * in.f + j] * in.input(row, q);
    if (e == -2) shared_gate_up(half, j, q) = sum;
    else dgate_up(e, half, j, q) = sum;
  });
  loop(all * in.c * in.f, "experts ddown", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t owner = item / (in.c * in.f), q = item / in.f % in.c, j = item % in.f;
    const int64_t e = owner == experts ? -2 : owner;
    Acc sum = 0;
    for (int64_t row = 0; row < in.rows; ++row)
      for (int64_t slot = 0; slot < in.slots; ++slot)
        if (in.expert(row, slot) == e) sum += in.upstream(row, q) * in.factor(row, slot) * in.hidden((row * in.slots + slot) * in.f + j);
    if (e == -2) shared_down(q, j) = sum;
    else ddown(e, q, j) = sum;
  });
}

}  // namespace megatoken::experts
