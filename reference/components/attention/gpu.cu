// attention/gpu: the loops of cpu.cpp, one thread per row of a result. A thread keeps a few columns of its row in
// registers and runs over the terms again for the next ones, so nothing of size t × s is stored and no row is too wide.
#include <cmath>
#include <limits>

#include "reference/components/attention/attention.hpp"
#include "reference/core/launch.cuh"
#include "reference/core/variant.hpp"

namespace megatoken::attention {
namespace {

constexpr int kColumns = 32;  // of a row of o, dq, dk or dv that are summed in one run over its terms

template <class T>
struct Inputs {
  using Acc = Accumulator<T>;
  int64_t t, s, h, hk, d, dv, group;
  bool causal;
  Acc scale;
  Elements<const T, 4> q, k, v;
  Elements<const int32_t, 1> q_position, k_position;
  Elements<const int32_t, 2> q_document, k_document;

  Inputs(const Shape& shape, const Tensors& x)
      : t(shape.t), s(shape.s), h(shape.h), hk(shape.hk), d(shape.d), dv(shape.dv), group(shape.group()), causal(shape.causal),
        scale(static_cast<Acc>(shape.scale)), q(x.q.elements<const T, 4>()), k(x.k.elements<const T, 4>()), v(x.v.elements<const T, 4>()),
        q_position(x.q_position.elements<const int32_t, 1>()), k_position(x.k_position.elements<const int32_t, 1>()),
        q_document(x.q_document.elements<const int32_t, 2>()), k_document(x.k_document.elements<const int32_t, 2>()) {}

  __device__ bool visible(int64_t b, int64_t i, int64_t j) const {
    return q_document(b, i) >= 0 && q_document(b, i) == k_document(b, j) && (!causal || k_position(j) <= q_position(i));
  }
  __device__ Acc score(int64_t b, int64_t head, int64_t i, int64_t j) const {
    Acc sum = 0;
    for (int64_t c = 0; c < d; ++c) sum += static_cast<Acc>(q(b, i, head, c)) * static_cast<Acc>(k(b, j, head / group, c));
    return scale * sum;
  }
};

/// o and the gradients may be wider than the inputs.
template <class T, class Wide>
void forward_loops(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const Inputs<T> p(shape, x);
  const auto o = x.o.elements<Wide, 4>();
  const auto lse = x.lse.elements<Acc, 3>();
  launch(shape.b * shape.h * shape.t, context.stream, "attention forward", [=] __device__(int64_t item) {
    const int64_t b = item / (p.h * p.t), head = item / p.t % p.h, i = item % p.t;
    Acc largest = -std::numeric_limits<Acc>::infinity();
    for (int64_t j = 0; j < p.s; ++j)
      if (p.visible(b, i, j)) largest = fmax(largest, p.score(b, head, i, j));
    for (int64_t first = 0; first < p.dv; first += kColumns) {
      Acc sum = 0, value[kColumns] = {};
      for (int64_t j = 0; j < p.s; ++j) {
        if (!p.visible(b, i, j)) continue;
        const Acc weight = exp(p.score(b, head, i, j) - largest);
        sum += weight;
        for (int c = 0; c < kColumns; ++c)
          if (first + c < p.dv) value[c] += weight * static_cast<Acc>(p.v(b, j, head / p.group, first + c));
      }
      for (int c = 0; c < kColumns; ++c)
        if (first + c < p.dv) o(b, i, head, first + c) = static_cast<Wide>(sum == 0 ? Acc{0} : value[c] / sum);
      lse(b, head, i) = sum == 0 ? -std::numeric_limits<Acc>::infinity() : largest + log(sum);
    }
  });
}

/// Δ_i = do_i · o_i − dlse_i, into the workspace as [b, h, t].
template <class T, class Wide>
Elements<Accumulator<T>, 3> compute_delta(const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const Elements<Acc, 3> delta{reinterpret_cast<Acc*>(context.workspace.data()), {shape.h * shape.t, shape.t, 1}};
  const auto o = x.o.elements<const Wide, 4>();
  const auto d_o = x.d_o.elements<const T, 4>();
  const auto d_lse = x.d_lse.elements<const Acc, 3>();
  const int64_t h = shape.h, t = shape.t, dv = shape.dv;
  launch(shape.b * h * t, context.stream, "attention delta", [=] __device__(int64_t item) {
    const int64_t b = item / (h * t), head = item / t % h, i = item % t;
    Acc sum = 0;
    for (int64_t c = 0; c < dv; ++c) sum += static_cast<Acc>(d_o(b, i, head, c)) * static_cast<Acc>(o(b, i, head, c));
    delta(b, head, i) = sum - d_lse(b, head, i);
  });
  return delta;
}

/// P and dS of a pair.
template <class T>
struct Pairs {
  using Acc = Accumulator<T>;
  Inputs<T> p;
  Elements<const T, 4> d_o;
  Elements<const Acc, 3> lse;
  Elements<Acc, 3> delta;

  /// False for pairs that are not visible and for rows without keys.
  __device__ bool exists(int64_t b, int64_t head, int64_t i, int64_t j) const { return p.visible(b, i, j) && !isinf(lse(b, head, i)); }
  __device__ Acc weight(int64_t b, int64_t head, int64_t i, int64_t j) const { return exp(p.score(b, head, i, j) - lse(b, head, i)); }
  __device__ Acc ds(int64_t b, int64_t head, int64_t i, int64_t j) const {
    Acc dp = 0;
    for (int64_t c = 0; c < p.dv; ++c) dp += static_cast<Acc>(d_o(b, i, head, c)) * static_cast<Acc>(p.v(b, j, head / p.group, c));
    return p.scale * weight(b, head, i, j) * (dp - delta(b, head, i));
  }
};

template <class T, class Wide>
void backward_loops(const Pairs<T>& pairs, const Shape& shape, const Tensors& x, Context& context) {
  using Acc = Accumulator<T>;
  const auto dq = x.dq.elements<Wide, 4>(), dk = x.dk.elements<Wide, 4>(), dv = x.dv.elements<Wide, 4>();

  launch(shape.b * shape.h * shape.t, context.stream, "attention dq", [=] __device__(int64_t item) {
    const Inputs<T>& p = pairs.p;
    const int64_t b = item / (p.h * p.t), head = item / p.t % p.h, i = item % p.t;
    for (int64_t first = 0; first < p.d; first += kColumns) {
      Acc sum[kColumns] = {};
      for (int64_t j = 0; j < p.s; ++j) {
        if (!pairs.exists(b, head, i, j)) continue;
        const Acc ds = pairs.ds(b, head, i, j);
        for (int c = 0; c < kColumns; ++c)
          if (first + c < p.d) sum[c] += ds * static_cast<Acc>(p.k(b, j, head / p.group, first + c));
      }
      for (int c = 0; c < kColumns; ++c)
        if (first + c < p.d) dq(b, i, head, first + c) = static_cast<Wide>(sum[c]);
    }
  });

  launch(shape.b * shape.hk * shape.s, context.stream, "attention dk", [=] __device__(int64_t item) {
    const Inputs<T>& p = pairs.p;
    const int64_t b = item / (p.hk * p.s), kv_head = item / p.s % p.hk, j = item % p.s;
    for (int64_t first = 0; first < p.d; first += kColumns) {
      Acc sum[kColumns] = {};
      for (int64_t head = kv_head * p.group; head < (kv_head + 1) * p.group; ++head)
        for (int64_t i = 0; i < p.t; ++i) {
          if (!pairs.exists(b, head, i, j)) continue;
          const Acc ds = pairs.ds(b, head, i, j);
          for (int c = 0; c < kColumns; ++c)
            if (first + c < p.d) sum[c] += ds * static_cast<Acc>(p.q(b, i, head, first + c));
        }
      for (int c = 0; c < kColumns; ++c)
        if (first + c < p.d) dk(b, j, kv_head, first + c) = static_cast<Wide>(sum[c]);
    }
  });

  launch(shape.b * shape.hk * shape.s, context.stream, "attention dv", [=] __device__(int64_t item) {
    const Inputs<T>& p = pairs.p;
    const int64_t b = item / (p.hk * p.s), kv_head = item / p.s % p.hk, j = item % p.s;
    for (int64_t first = 0; first < p.dv; first += kColumns) {
      Acc sum[kColumns] = {};
      for (int64_t head = kv_head * p.group; head < (kv_head + 1) * p.group; ++head)
        for (int64_t i = 0; i < p.t; ++i) {
          if (!pairs.exists(b, head, i, j)) continue;
          const Acc weight = pairs.weight(b, head, i, j);
          for (int c = 0; c < kColumns; ++c)
            if (first + c < p.dv) sum[c] += weight * static_cast<Acc>(pairs.d_o(b, i, head, first + c));
        }
      for (int c = 0; c < kColumns; ++c)
        if (first + c < p.dv) dv(b, j, kv_head, first + c) = static_cast<Wide>(sum[c]);
    }
  });
}

/// f<T, Wide>() with the inputs' type and that of a result: the same or the accumulator's.
template <class F>
void dispatch(DType input, DType result, F&& f) {
  const auto with = [&]<class T>() {
    if (result == input) f.template operator()<T, T>();
    else f.template operator()<T, Accumulator<T>>();
  };
  if (input == DType::F64) return f.template operator()<double, double>();
  if (input == DType::F32) return f.template operator()<float, float>();
  if (input == DType::BF16) return with.template operator()<BFloat16>();
  with.template operator()<Half>();
}

void forward(const Shape& shape, const Tensors& x, Context& context) {
  dispatch(x.q.dtype, x.o.dtype, [&]<class T, class Wide>() { forward_loops<T, Wide>(shape, x, context); });
}

void backward(const Shape& shape, const Tensors& x, Context& context) {
  dispatch(x.q.dtype, x.o.dtype, [&]<class T, class WideOutput>() {
    using Acc = Accumulator<T>;
    const auto delta = compute_delta<T, WideOutput>(shape, x, context);
    const Pairs<T> pairs{Inputs<T>(shape, x), x.d_o.elements<const T, 4>(), x.lse.elements<const Acc, 3>(), delta};
    if (x.dq.dtype == x.q.dtype) backward_loops<T, T>(pairs, shape, x, context);
    else backward_loops<T, Acc>(pairs, shape, x, context);
  });
}

int64_t workspace(const Shape& shape, DType dtype, Phase phase) {
  return phase == Phase::Forward ? 0 : shape.b * shape.h * shape.t * size_of(accumulator_of(dtype));
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "gpu",
    .about = "the formulas, one thread per row",
    .device = Device::Gpu,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
})};

}  // namespace
}  // namespace megatoken::attention
