// router: the formulas of router.hpp. Scores of all experts are kept in the workspace.
#pragma once
#include <cmath>

#include "reference/components/router/router.hpp"
#include "reference/core/host_device.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::router {

/// score[row, e] = σ(x · w_e)
template <class T, class Loop>
void score_loop(const Shape& s, const Tensors& v, Accumulator<T>* score, const Loop& loop) {
  using Acc = Accumulator<T>;
  const auto x = v.x.elements<const T, 3>();
  const auto w = v.w.elements<const T, 2>();
  const int64_t t = s.t, c = s.c, experts = s.e;
  loop(s.rows() * experts, "router scores", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / experts, e = item % experts;
    Acc sum = 0;
    for (int64_t j = 0; j < c; ++j) sum += static_cast<Acc>(x(row / t, row % t, j)) * static_cast<Acc>(w(e, j));
    score[item] = 1 / (1 + std::exp(-sum));
  });
}

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& v, Context& context, const Loop& loop) {
  using Acc = Accumulator<T>;
  auto* score = reinterpret_cast<Acc*>(context.workspace.data());
  score_loop<T>(s, v, score, loop);
  const auto bias = v.bias.elements<const Acc, 1>();
  const auto id = v.id.elements<int32_t, 3>();
  const auto weight = v.weight.elements<Acc, 3>();
  const int64_t t = s.t, experts = s.e, k = s.k;
  const Acc factor = static_cast<Acc>(s.factor);
  loop(s.rows(), "router choice", [=] MEGATOKEN_HD(int64_t row) {
    const int64_t b = row / t, i = row % t;
    Acc sum = 0;
    for (int64_t slot = 0; slot < k; ++slot) {  // the next best after the last one, in the order (score, lower id)
      int64_t best = -1;
      for (int64_t e = 0; e < experts; ++e) {
        const Acc value = score[row * experts + e] + bias(e);
        if (slot > 0) {
          const int64_t last = id(b, i, slot - 1);
          const Acc before = score[row * experts + last] + bias(last);
          if (value > before || (value == before && e <= last)) continue;
        }
        if (best < 0 || value > score[row * experts + best] + bias(best)) best = e;
      }
      id(b, i, slot) = static_cast<int32_t>(best);
      sum += score[row * experts + best];
    }
    for (int64_t slot = 0; slot < k; ++slot) weight(b, i, slot) = factor * score[row * experts + id(b, i, slot)] / (sum + Acc(1e-20));
  });
}

template <class T, class Loop>
void backward_loops(const Shape& s, const Tensors& v, Context& context, const Loop& loop) {
  using Acc = Accumulator<T>;
  auto* score = reinterpret_cast<Acc*>(context.workspace.data());
  Acc* d_logit = score + s.rows() * s.e;
  score_loop<T>(s, v, score, loop);
  const auto x = v.x.elements<const T, 3>();
  const auto w = v.w.elements<const T, 2>();
  const auto id = v.id.elements<const int32_t, 3>();
  const auto weight = v.weight.elements<const Acc, 3>(), d_weight = v.d_weight.elements<const Acc, 3>();
  const auto dx = v.dx.elements<T, 3>();
  const auto dw = v.dw.elements<Acc, 2>();
  const int64_t rows = s.rows(), t = s.t, c = s.c, experts = s.e, k = s.k;
  const Acc factor = static_cast<Acc>(s.factor);
  loop(rows, "router dlogits", [=] MEGATOKEN_HD(int64_t row) {
    const int64_t b = row / t, i = row % t;
    for (int64_t e = 0; e < experts; ++e) d_logit[row * experts + e] = 0;
    Acc sum = 0, dot = 0;
    for (int64_t slot = 0; slot < k; ++slot) {
      sum += score[row * experts + id(b, i, slot)];
      dot += d_weight(b, i, slot) * weight(b, i, slot);
    }
    for (int64_t slot = 0; slot < k; ++slot) {
      const Acc value = score[row * experts + id(b, i, slot)];
      d_logit[row * experts + id(b, i, slot)] = value * (1 - value) * (factor * d_weight(b, i, slot) - dot) / (sum + Acc(1e-20));
    }
  });
  loop(rows * c, "router dx", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / c, j = item % c;
    Acc sum = 0;
    for (int64_t e = 0; e < experts; ++e) sum += d_logit[row * experts + e] * static_cast<Acc>(w(e, j));
    dx(row / t, row % t, j) = T(sum);
  });
  loop(experts * c, "router dw", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t e = item / c, j = item % c;
    Acc sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += d_logit[row * experts + e] * static_cast<Acc>(x(row / t, row % t, j));
    dw(e, j) = sum;
  });
}

}  // namespace megatoken::router
