// index_kl: the formulas of index_kl.hpp, one row a step.
#pragma once
#include <cmath>
#include <limits>

#include "reference/components/index_kl/index_kl.hpp"
#include "reference/core/host_device.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::index_kl {

template <class T>
struct Inputs {
  using Acc = Accumulator<T>;
  int64_t h, pool;
  Elements<const T, 4> logit;
  Elements<const Acc, 3> lse, score;
  Elements<const int32_t, 2> count;

  Inputs(const Shape& s, const Tensors& v)
      : h(s.h), pool(s.pool), logit(v.logit.elements<const T, 4>()), lse(v.lse.elements<const Acc, 3>()), score(v.score.elements<const Acc, 3>()),
        count(v.count.elements<const int32_t, 2>()) {}

  /// t_p / e^shift, where no term is larger than e^shift.
  MEGATOKEN_HD Acc mass(int64_t b, int64_t i, int64_t p, Acc shift) const {
    Acc sum = 0;
    for (int64_t head = 0; head < h; ++head)
      for (int64_t m = p * pool; m < (p + 1) * pool; ++m) sum += std::exp(static_cast<Acc>(logit(b, i, head, m)) - lse(b, head, i) - shift);
    return sum;
  }
};

/// The constants of one row: target_p = mass(p, shift) / total, ln q_p = score_p − log_sum. Absent when nothing has mass.
template <class Acc>
struct Row {
  bool present = false;
  Acc shift = 0, total = 0, log_sum = 0;
};

template <class T>
MEGATOKEN_HD Row<Accumulator<T>> row_of(const Inputs<T>& x, int64_t b, int64_t i) {
  using Acc = Accumulator<T>;
  const Acc none = -std::numeric_limits<Acc>::infinity();
  Acc shift = none, largest = none;
  for (int64_t p = 0; p < x.count(b, i); ++p) {
    largest = x.score(b, i, p) > largest ? x.score(b, i, p) : largest;
    for (int64_t head = 0; head < x.h; ++head)
      for (int64_t m = p * x.pool; m < (p + 1) * x.pool; ++m) {
        const Acc log_mass = static_cast<Acc>(x.logit(b, i, head, m)) - x.lse(b, head, i);
        shift = log_mass > shift ? log_mass : shift;
      }
  }
  if (shift == none) return {};
  Acc total = 0, sum = 0;
  for (int64_t p = 0; p < x.count(b, i); ++p) {
    total += x.mass(b, i, p, shift);
    sum += std::exp(x.score(b, i, p) - largest);
  }
  return {true, shift, total, largest + std::log(sum)};
}

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Inputs<T> x(s, v);
  const auto loss = v.loss.elements<Acc, 2>();
  const int64_t t = s.t;
  const Acc coefficient = static_cast<Acc>(s.coefficient);
  loop(s.b * t, "index_kl loss", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / t, i = item % t;
    const Row<Acc> row = row_of(x, b, i);
    Acc sum = 0;
    for (int64_t p = 0; row.present && p < x.count(b, i); ++p) {
      const Acc target = x.mass(b, i, p, row.shift) / row.total;
      if (target > 0) sum += target * (std::log(target) - (x.score(b, i, p) - row.log_sum));
    }
    loss(b, i) = coefficient * sum;
  });
}

template <class T, class Loop>
void backward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Inputs<T> x(s, v);
  const auto d_loss = v.d_loss.elements<const Acc, 2>();
  const auto d_score = v.d_score.elements<Acc, 3>();
  const int64_t t = s.t, topk = s.topk;
  const Acc coefficient = static_cast<Acc>(s.coefficient);
  loop(s.b * t, "index_kl dscore", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / t, i = item % t;
    const Row<Acc> row = row_of(x, b, i);
    for (int64_t p = 0; p < topk; ++p) {
      const bool selected = row.present && p < x.count(b, i);
      d_score(b, i, p) = selected ? coefficient * d_loss(b, i) * (std::exp(x.score(b, i, p) - row.log_sum) - x.mass(b, i, p, row.shift) / row.total) : Acc(0);
    }
  });
}

}  // namespace megatoken::index_kl
