// pool_keys: the formulas of pool_keys.hpp. Mean and r of every token are kept in the workspace; the softmax is formed again wherever it is needed.
#pragma once
#include <cmath>

#include "reference/components/pool_keys/pool_keys.hpp"
#include "reference/components/pool_keys/pools.hpp"
#include "reference/core/host_device.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::pool_keys {

template <class T>
struct Inputs {
  using Acc = Accumulator<T>;
  int64_t t, d, pool, rows;
  Acc eps;
  bool round_probabilities;
  Elements<const T, 3> k, gate;
  Elements<const Acc, 2> ape;
  Elements<const Acc, 1> weight, bias;
  Elements<const int32_t, 2> document;
  Elements<Acc, 3> statistics;  // b t 2: mean, r

  Inputs(const Shape& s, const Tensors& v, const Context& context)
      : t(s.t), d(s.d), pool(s.pool), rows(s.rows()), eps(static_cast<Acc>(s.eps)), round_probabilities(s.round_probabilities), k(v.k.elements<const T, 3>()),
        gate(v.gate.elements<const T, 3>()), ape(v.ape.elements<const Acc, 2>()), weight(v.weight.elements<const Acc, 1>()), bias(v.bias.elements<const Acc, 1>()),
        document(v.document.elements<const int32_t, 2>()), statistics{reinterpret_cast<Acc*>(context.workspace.data()), {2 * s.t, 2, 1}} {}

  MEGATOKEN_HD void find_statistics(int64_t b, int64_t i) const {
    Acc mean = 0, variance = 0;
    for (int64_t c = 0; c < d; ++c) mean += static_cast<Acc>(k(b, i, c));
    mean /= static_cast<Acc>(d);
    for (int64_t c = 0; c < d; ++c) variance += (static_cast<Acc>(k(b, i, c)) - mean) * (static_cast<Acc>(k(b, i, c)) - mean);
    statistics(b, i, 0) = mean, statistics(b, i, 1) = 1 / std::sqrt(variance / static_cast<Acc>(d) + eps);
  }
  /// x̂
  MEGATOKEN_HD Acc hat(int64_t b, int64_t i, int64_t c) const { return (static_cast<Acc>(k(b, i, c)) - statistics(b, i, 0)) * statistics(b, i, 1); }
  MEGATOKEN_HD Acc normed(int64_t b, int64_t i, int64_t c) const { return weight(c) * hat(b, i, c) + bias(c); }

  /// π of slot s of the pool that starts at token `first`.
  MEGATOKEN_HD Acc probability(int64_t b, int64_t first, int64_t s, int64_t c) const {
    Acc largest = static_cast<Acc>(gate(b, first, c)) + ape(0, c), sum = 0;
    for (int64_t j = 1; j < pool; ++j) {
      const Acc logit = static_cast<Acc>(gate(b, first + j, c)) + ape(j, c);
      if (logit > largest) largest = logit;
    }
    for (int64_t j = 0; j < pool; ++j) sum += std::exp(static_cast<Acc>(gate(b, first + j, c)) + ape(j, c) - largest);
    const Acc p = std::exp(static_cast<Acc>(gate(b, first + s, c)) + ape(s, c) - largest) / sum;
    return round_probabilities ? static_cast<Acc>(T(p)) : p;
  }
  MEGATOKEN_HD Acc pooled(int64_t b, int64_t first, int64_t c) const {
    Acc sum = 0;
    for (int64_t s = 0; s < pool; ++s) sum += probability(b, first, s, c) * normed(b, first + s, c);
    return sum;
  }
};

template <class T, class Loop>
Inputs<T> with_statistics(const Shape& shape, const Tensors& v, const Context& context, const Loop& loop) {
  const Inputs<T> x(shape, v, context);
  loop(shape.b * x.t, "pool_keys statistics", [=] MEGATOKEN_HD(int64_t item) { x.find_statistics(item / x.t, item % x.t); });
  return x;
}

template <class T, class Loop>
void forward_loops(const Shape& shape, const Tensors& v, const Context& context, const Loop& loop) {
  const Inputs<T> x = with_statistics<T>(shape, v, context, loop);
  const auto y = v.y.elements<T, 3>();
  loop(shape.b * x.rows * x.d, "pool_keys forward", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (x.rows * x.d), row = item / x.d % x.rows, c = item % x.d;
    const int64_t first = pool_of_row(x.document, b, row, x.t, x.pool);
    y(b, row, c) = T(first < 0 ? Accumulator<T>(0) : x.pooled(b, first, c));
  });
}

template <class T, class Loop>
void backward_loops(const Shape& shape, const Tensors& v, const Context& context, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Inputs<T> x = with_statistics<T>(shape, v, context, loop);
  const auto d_y = v.d_y.elements<const T, 3>();
  const auto dk = v.dk.elements<T, 3>(), d_gate = v.d_gate.elements<T, 3>();
  const auto d_ape = v.d_ape.elements<Acc, 2>();
  const auto d_weight = v.d_weight.elements<Acc, 1>(), d_bias = v.d_bias.elements<Acc, 1>();
  const int64_t batch = shape.b;

  // dn of token i, in the pool that starts at `first`.
  const auto d_normed = [=] MEGATOKEN_HD(int64_t b, int64_t first, int64_t i, int64_t c) {
    return x.probability(b, first, i - first, c) * static_cast<Acc>(d_y(b, first / x.pool, c));
  };
  const auto gate_gradient = [=] MEGATOKEN_HD(int64_t b, int64_t first, int64_t i, int64_t c) {
    return d_normed(b, first, i, c) * (x.normed(b, i, c) - x.pooled(b, first, c));
  };

  loop(batch * x.t, "pool_keys dk, dgate", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / x.t, i = item % x.t, first = pool_of_token(x.document, b, i, x.t, x.pool);
    Acc mean = 0, mean_hat = 0;
    for (int64_t c = 0; first >= 0 && c < x.d; ++c) {
      const Acc a = x.weight(c) * d_normed(b, first, i, c);
      mean += a, mean_hat += a * x.hat(b, i, c);
    }
    mean /= static_cast<Acc>(x.d), mean_hat /= static_cast<Acc>(x.d);
    for (int64_t c = 0; c < x.d; ++c) {
      dk(b, i, c) = T(first < 0 ? Acc(0) : x.statistics(b, i, 1) * (x.weight(c) * d_normed(b, first, i, c) - mean - x.hat(b, i, c) * mean_hat));
      d_gate(b, i, c) = T(first < 0 ? Acc(0) : gate_gradient(b, first, i, c));
    }
  });
  loop(x.pool * x.d, "pool_keys dape", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t slot = item / x.d, c = item % x.d;
    Acc sum = 0;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t row = 0; row < x.rows; ++row)
        if (const int64_t first = pool_of_row(x.document, b, row, x.t, x.pool); first >= 0) sum += gate_gradient(b, first, first + slot, c);
    d_ape(slot, c) = sum;
  });
  loop(x.d, "pool_keys dweight, dbias", [=] MEGATOKEN_HD(int64_t c) {
    Acc weight = 0, bias = 0;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < x.t; ++i)
        if (const int64_t first = pool_of_token(x.document, b, i, x.t, x.pool); first >= 0) {
          const Acc dn = d_normed(b, first, i, c);
          weight += dn * x.hat(b, i, c), bias += dn;
        }
    d_weight(c) = weight, d_bias(c) = bias;
  });
}

}  // namespace megatoken::pool_keys
