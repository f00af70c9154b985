// linear_cross_entropy: the formulas of linear_cross_entropy.hpp, with all logits in the workspace.
#pragma once
#include <cmath>

#include "reference/components/linear_cross_entropy/linear_cross_entropy.hpp"
#include "reference/core/host_device.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::linear_cross_entropy {

template <class T, class Loop>
void logit_loop(const Shape& s, const Tensors& x, Accumulator<T>* logits, const Loop& loop) {
  using Acc = Accumulator<T>;
  const auto input = x.x.elements<const T, 3>();
  const auto w = x.w.elements<const T, 2>();
  const auto bias = s.bias ? x.bias.elements<const T, 1>() : Elements<const T, 1>{};
  const bool has_bias = s.bias;
  const int64_t t = s.t, c = s.c, words = s.v;
  loop(s.rows() * words, "linear_cross_entropy logits", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / words, v = item % words;
    Acc sum = has_bias ? static_cast<Acc>(bias(v)) : Acc{0};
    for (int64_t j = 0; j < c; ++j) sum += static_cast<Acc>(input(row / t, row % t, j)) * static_cast<Acc>(w(v, j));
    logits[item] = sum;
  });
}

/// ln Σ e^logit of one row.
template <class Acc>
MEGATOKEN_HD Acc log_sum_exp(const Acc* logits, int64_t words) {
  Acc largest = logits[0], sum = 0;
  for (int64_t v = 1; v < words; ++v) largest = logits[v] > largest ? logits[v] : largest;
  for (int64_t v = 0; v < words; ++v) sum += std::exp(logits[v] - largest);
  return largest + std::log(sum);
}

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& x, Context& context, const Loop& loop) {
  using Acc = Accumulator<T>;
  auto* logits = reinterpret_cast<Acc*>(context.workspace.data());
  logit_loop<T>(s, x, logits, loop);
  const auto label = x.label.elements<const int32_t, 2>();
  const auto logprob = x.logprob.elements<Acc, 2>();
  const auto loss = x.loss.elements<Acc, 1>();
  const int64_t rows = s.rows(), t = s.t, words = s.v;
  loop(rows, "linear_cross_entropy logprob", [=] MEGATOKEN_HD(int64_t row) {
    const int32_t l = label(row / t, row % t);
    logprob(row / t, row % t) = l == kIgnored ? Acc{0} : logits[row * words + l] - log_sum_exp(logits + row * words, words);
  });
  loop(1, "linear_cross_entropy loss", [=] MEGATOKEN_HD(int64_t) {
    double sum = 0;  // a million terms: one fp64 sum costs nothing
    for (int64_t row = 0; row < rows; ++row) sum -= static_cast<double>(logprob(row / t, row % t));
    loss(0) = static_cast<Acc>(sum);
  });
}

template <class T, class Loop>
void backward_loops(const Shape& s, const Tensors& x, Context& context, const Loop& loop) {
  using Acc = Accumulator<T>;
  auto* logits = reinterpret_cast<Acc*>(context.workspace.data());
  logit_loop<T>(s, x, logits, loop);
  const auto input = x.x.elements<const T, 3>();
  const auto w = x.w.elements<const T, 2>();
  const auto label = x.label.elements<const int32_t, 2>();
  const auto d_loss = x.d_loss.elements<const Acc, 1>();
  const auto d_logprob = x.d_logprob.elements<const Acc, 2>();
  const int64_t rows = s.rows(), t = s.t, c = s.c, words = s.v;
  loop(rows, "linear_cross_entropy dlogits", [=] MEGATOKEN_HD(int64_t row) {
    const int32_t l = label(row / t, row % t);
    const Acc g = l == kIgnored ? Acc{0} : d_logprob(row / t, row % t) - d_loss(0);
    Acc* line = logits + row * words;
    const Acc lse = log_sum_exp(line, words);
    for (int64_t v = 0; v < words; ++v) line[v] = g * ((v == l ? Acc{1} : Acc{0}) - std::exp(line[v] - lse));
  });
  const auto dx = x.dx.elements<T, 3>();
  const auto dw = x.dw.elements<Acc, 2>();
  loop(rows * c, "linear_cross_entropy dx", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / c, j = item % c;
    Acc sum = 0;
    for (int64_t v = 0; v < words; ++v) sum += logits[row * words + v] * static_cast<Acc>(w(v, j));
    dx(row / t, row % t, j) = T(sum);
  });
  loop(words * c, "linear_cross_entropy dw", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t v = item / c, j = item % c;
    Acc sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += logits[row * words + v] * static_cast<Acc>(input(row / t, row % t, j));
    dw(v, j) = sum;
  });
  if (!s.bias) return;
  const auto dbias = x.dbias.elements<Acc, 1>();
  loop(words, "linear_cross_entropy dbias", [=] MEGATOKEN_HD(int64_t v) {
    Acc sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += logits[row * words + v];
    dbias(v) = sum;
  });
}

}  // namespace megatoken::linear_cross_entropy
