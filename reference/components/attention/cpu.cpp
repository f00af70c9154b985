// attention/cpu: the formulas of attention.hpp as loops, nothing kept back. At fp64 it is the oracle; at lower precision the
// same loops with fp32 accumulation are the yardstick that variants are held to.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/components/attention/attention.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::attention {
namespace {

template <class T>
struct Inputs {
  using Acc = Accumulator<T>;
  const Shape& shape;
  Elements<const T, 4> q, k, v;
  Elements<const int32_t, 1> q_position, k_position;
  Elements<const int32_t, 2> q_document, k_document;

  Inputs(const Shape& shape, const Tensors& x)
      : shape(shape), q(x.q.elements<const T, 4>()), k(x.k.elements<const T, 4>()), v(x.v.elements<const T, 4>()),
        q_position(x.q_position.elements<const int32_t, 1>()), k_position(x.k_position.elements<const int32_t, 1>()),
        q_document(x.q_document.elements<const int32_t, 2>()), k_document(x.k_document.elements<const int32_t, 2>()) {}

  bool visible(int64_t b, int64_t i, int64_t j) const {
    return q_document(b, i) >= 0 && q_document(b, i) == k_document(b, j) && (!shape.causal || k_position(j) <= q_position(i));
  }
  Acc score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    Acc sum = 0;
    for (int64_t d = 0; d < shape.d; ++d) sum += static_cast<Acc>(q(b, i, h, d)) * static_cast<Acc>(k(b, j, h / shape.group(), d));
    return static_cast<Acc>(shape.scale) * sum;
  }
};

/// Wide: o (and the gradients below) may be wider than the inputs, as schemes that merge blocks need.
template <class T, class Wide>
void forward_loops(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const Inputs<T> p(shape, x);
  const auto o = x.o.elements<Wide, 4>();
  const auto lse = x.lse.elements<Acc, 3>();
  parallel_for(shape.b * shape.h * shape.t, context.threads, [&](int64_t item) {
    const int64_t b = item / (shape.h * shape.t), h = item / shape.t % shape.h, i = item % shape.t;
    constexpr Acc kNone = -std::numeric_limits<Acc>::infinity();
    std::vector<Acc> weight(static_cast<size_t>(shape.s), kNone);  // the row of S, then of P
    Acc largest = kNone;
    for (int64_t j = 0; j < shape.s; ++j)
      if (p.visible(b, i, j)) largest = std::max(largest, weight[static_cast<size_t>(j)] = p.score(b, h, i, j));
    Acc sum = 0;
    for (auto& w : weight) sum += w = w == kNone ? Acc{0} : std::exp(w - largest);
    lse(b, h, i) = sum == 0 ? kNone : largest + std::log(sum);  // a NaN among the scores stays visible
    for (int64_t d = 0; d < shape.dv; ++d) {
      Acc value = 0;
      for (int64_t j = 0; j < shape.s; ++j)
        if (weight[static_cast<size_t>(j)] != 0) value += weight[static_cast<size_t>(j)] * static_cast<Acc>(p.v(b, j, h / shape.group(), d));
      o(b, i, h, d) = static_cast<Wide>(sum == 0 ? Acc{0} : value / sum);
    }
  });
}

template <class T, class Wide>
void backward_loops(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const Inputs<T> p(shape, x);
  const auto lse = x.lse.elements<const Acc, 3>(), d_lse = x.d_lse.elements<const Acc, 3>();
  const auto d_o = x.d_o.elements<const T, 4>();
  const auto dq = x.dq.elements<Wide, 4>(), dk = x.dk.elements<Wide, 4>(), dv = x.dv.elements<Wide, 4>();

  std::vector<Acc> delta(static_cast<size_t>(shape.b * shape.h * shape.t));  // b h t
  const auto delta_at = [&](int64_t b, int64_t h, int64_t i) -> Acc& { return delta[static_cast<size_t>((b * shape.h + h) * shape.t + i)]; };
  dispatch_float(x.o.dtype, [&]<class O>() {
    const auto o = x.o.elements<const O, 4>();
    for (int64_t b = 0; b < shape.b; ++b)
      for (int64_t h = 0; h < shape.h; ++h)
        for (int64_t i = 0; i < shape.t; ++i) {
          Acc sum = 0;
          for (int64_t d = 0; d < shape.dv; ++d) sum += static_cast<Acc>(d_o(b, i, h, d)) * static_cast<Acc>(o(b, i, h, d));
          delta_at(b, h, i) = sum - d_lse(b, h, i);
        }
  });

  // P_ij and dS_ij of one pair; 0 for pairs that are not visible and for rows without keys.
  const auto pair = [&](int64_t b, int64_t h, int64_t i, int64_t j, Acc& weight, Acc& ds) {
    weight = ds = 0;
    if (!p.visible(b, i, j) || std::isinf(lse(b, h, i))) return false;
    weight = std::exp(p.score(b, h, i, j) - lse(b, h, i));
    Acc dp = 0;
    for (int64_t d = 0; d < shape.dv; ++d) dp += static_cast<Acc>(d_o(b, i, h, d)) * static_cast<Acc>(p.v(b, j, h / shape.group(), d));
    ds = static_cast<Acc>(shape.scale) * weight * (dp - delta_at(b, h, i));
    return true;
  };

  parallel_for(shape.b * shape.h * shape.t, context.threads, [&](int64_t item) {
    const int64_t b = item / (shape.h * shape.t), h = item / shape.t % shape.h, i = item % shape.t;
    std::vector<Acc> row(static_cast<size_t>(shape.d));
    Acc weight, ds;
    for (int64_t j = 0; j < shape.s; ++j)
      if (pair(b, h, i, j, weight, ds))
        for (int64_t d = 0; d < shape.d; ++d) row[static_cast<size_t>(d)] += ds * static_cast<Acc>(p.k(b, j, h / shape.group(), d));
    for (int64_t d = 0; d < shape.d; ++d) dq(b, i, h, d) = static_cast<Wide>(row[static_cast<size_t>(d)]);
  });

  parallel_for(shape.b * shape.hk * shape.s, context.threads, [&](int64_t item) {
    const int64_t b = item / (shape.hk * shape.s), hk = item / shape.s % shape.hk, j = item % shape.s;
    std::vector<Acc> k_row(static_cast<size_t>(shape.d)), v_row(static_cast<size_t>(shape.dv));
    Acc weight, ds;
    for (int64_t h = hk * shape.group(); h < (hk + 1) * shape.group(); ++h)
      for (int64_t i = 0; i < shape.t; ++i)
        if (pair(b, h, i, j, weight, ds)) {
          for (int64_t d = 0; d < shape.d; ++d) k_row[static_cast<size_t>(d)] += ds * static_cast<Acc>(p.q(b, i, h, d));
          for (int64_t d = 0; d < shape.dv; ++d) v_row[static_cast<size_t>(d)] += weight * static_cast<Acc>(d_o(b, i, h, d));
        }
    for (int64_t d = 0; d < shape.d; ++d) dk(b, j, hk, d) = static_cast<Wide>(k_row[static_cast<size_t>(d)]);
    for (int64_t d = 0; d < shape.dv; ++d) dv(b, j, hk, d) = static_cast<Wide>(v_row[static_cast<size_t>(d)]);
  });
}

/// Results are written in the inputs' dtype or in the accumulator's.
template <class F>
void dispatch(const TensorView& input, const TensorView& result, F&& f) {
  dispatch_float(input.dtype, [&]<class T>() {
    if (result.dtype == input.dtype) f.template operator()<T, T>();
    else f.template operator()<T, Accumulator<T>>();
  });
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu",
    .about = "the formulas as loops; the oracle at fp64",
    .dtypes = {DType::F64, DType::F32, DType::BF16, DType::F16},
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch(x.q, x.o, [&]<class T, class Wide>() { forward_loops<T, Wide>(s, x, c); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch(x.q, x.dq, [&]<class T, class Wide>() { backward_loops<T, Wide>(s, x, c); }); },
})};

}  // namespace
}  // namespace megatoken::attention
