// sparse_attention: the formulas of sparse_attention.hpp. A step sums kColumns numbers of a result's row on its stack and forms the weights
// again for the next ones: many columns on the CPU, few on a GPU thread. Nothing of size t × n is stored but the inverted index.
#pragma once
#include <cmath>
#include <limits>

#include "reference/components/sparse_attention/sparse_attention.hpp"
#include "reference/core/host_device.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::sparse_attention {

template <class T>
struct Inputs {
  using Acc = Accumulator<T>;
  int64_t t, s, h, d, dv, n, group;
  bool direct;
  Acc scale;
  Elements<const T, 4> q, k, v;  // v is k when absorbed
  Elements<const int32_t, 3> id;

  Inputs(const Shape& shape, const Tensors& x)
      : t(shape.t), s(shape.s), h(shape.h), d(shape.d), dv(shape.dv), n(shape.n), group(shape.group()), direct(shape.direct), scale(static_cast<Acc>(shape.scale)),
        q(x.q.elements<const T, 4>()), k(x.k.elements<const T, 4>()), v((shape.direct ? x.v : x.k).template elements<const T, 4>()), id(x.id.elements<const int32_t, 3>()) {}

  MEGATOKEN_HD bool valid(int64_t key) const { return key >= 0 && key < s; }
  MEGATOKEN_HD Acc score(int64_t b, int64_t i, int64_t head, int64_t key) const {
    Acc sum = 0;
    for (int64_t c = 0; c < d; ++c) sum += static_cast<Acc>(q(b, i, head, c)) * static_cast<Acc>(k(b, key, head / group, c));
    return scale * sum;
  }
};

constexpr int64_t parts(int64_t width, int64_t columns) { return (width + columns - 1) / columns; }

template <int kColumns, class T, class Loop>
void forward_loops(const Shape& shape, const Tensors& tensors, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Inputs<T> x(shape, tensors);
  const auto o = tensors.o.elements<T, 4>();
  const auto lse = tensors.lse.elements<Acc, 3>();
  loop(shape.b * x.t * x.h, "sparse_attention lse", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (x.t * x.h), i = item / x.h % x.t, head = item % x.h;
    Acc largest = -std::numeric_limits<Acc>::infinity(), sum = 0;  // sum of e^{S − largest}
    for (int64_t j = 0; j < x.n; ++j) {
      if (!x.valid(x.id(b, i, j))) continue;
      const Acc score = x.score(b, i, head, x.id(b, i, j));
      if (score > largest) sum = sum * std::exp(largest - score) + 1, largest = score;
      else sum += std::exp(score - largest);
    }
    lse(b, head, i) = largest + std::log(sum);  // −∞ without keys; a NaN among the scores stays visible
  });
  const int64_t chunks = parts(x.dv, kColumns);
  loop(shape.b * x.t * x.h * chunks, "sparse_attention o", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / chunks, first = item % chunks * kColumns, b = row / (x.t * x.h), i = row / x.h % x.t, head = row % x.h;
    const int64_t columns = x.dv - first < kColumns ? x.dv - first : kColumns;
    Acc value[kColumns];
    for (int64_t c = 0; c < columns; ++c) value[c] = 0;
    for (int64_t j = 0; j < x.n; ++j) {
      const int64_t key = x.id(b, i, j);
      if (!x.valid(key)) continue;
      const Acc weight = std::exp(x.score(b, i, head, key) - lse(b, head, i));
      for (int64_t c = 0; c < columns; ++c) value[c] += weight * static_cast<Acc>(x.v(b, key, head / x.group, first + c));
    }
    for (int64_t c = 0; c < columns; ++c) o(b, i, head, first + c) = T(value[c]);
  });
}

/// What backward adds to the inputs.
template <class T>
struct Gradients {
  using Acc = Accumulator<T>;
  Inputs<T> x;
  Elements<const T, 4> d_o;
  Elements<const Acc, 3> lse;
  Acc* delta;              // b t h
  int64_t *begin, *slots;  // b (s+1) · b t·n: the slots i·n + j that hold key x are slots[begin[x]] … slots[begin[x+1] − 1], ascending

  Gradients(const Shape& shape, const Tensors& v, const Context& context)
      : x(shape, v), d_o(v.d_o.elements<const T, 4>()), lse(v.lse.elements<const Acc, 3>()), begin(reinterpret_cast<int64_t*>(context.workspace.data())),
        slots(begin + shape.b * (shape.s + 1)) {
    delta = reinterpret_cast<Acc*>(slots + shape.b * shape.t * shape.n);
  }

  MEGATOKEN_HD Acc weight(int64_t b, int64_t i, int64_t head, int64_t key) const { return std::exp(x.score(b, i, head, key) - lse(b, head, i)); }
  MEGATOKEN_HD Acc ds(int64_t b, int64_t i, int64_t head, int64_t key, Acc weight) const {
    Acc dp = 0;
    for (int64_t c = 0; c < x.dv; ++c) dp += static_cast<Acc>(d_o(b, i, head, c)) * static_cast<Acc>(x.v(b, key, head / x.group, c));
    return x.scale * weight * (dp - delta[(b * x.t + i) * x.h + head]);
  }
  /// Counting sort of the slots of one batch row by key.
  MEGATOKEN_HD void invert(int64_t b) const {
    int64_t* first = begin + b * (x.s + 1);
    for (int64_t key = 0; key <= x.s; ++key) first[key] = 0;
    for (int64_t slot = 0; slot < x.t * x.n; ++slot)
      if (const int64_t key = x.id(b, slot / x.n, slot % x.n); x.valid(key)) ++first[key + 1];
    for (int64_t key = 0; key < x.s; ++key) first[key + 1] += first[key];
    const int64_t total = first[x.s];
    for (int64_t slot = x.t * x.n - 1; slot >= 0; --slot)  // from the back: first[key + 1] ends where key's slots begin
      if (const int64_t key = x.id(b, slot / x.n, slot % x.n); x.valid(key)) slots[b * x.t * x.n + --first[key + 1]] = slot;
    for (int64_t key = 0; key < x.s; ++key) first[key] = first[key + 1];
    first[x.s] = total;
  }
};

/// Gradients of key rows: as keys they get dS q, as values P do; absorbed rows are both.
template <int kColumns, class T, class Loop>
void key_loop(const Shape& shape, const Gradients<T>& g, const Elements<T, 4>& result, int64_t width, bool as_key, bool as_value, const char* what, const Loop& loop) {
  using Acc = Accumulator<T>;
  const int64_t t = shape.t, s = shape.s, hk = shape.hk, n = shape.n, group = shape.group(), chunks = parts(width, kColumns);
  loop(shape.b * s * hk * chunks, what, [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / chunks, first = item % chunks * kColumns, b = row / (s * hk), key = row / hk % s, key_head = row % hk;
    const int64_t columns = width - first < kColumns ? width - first : kColumns;
    const int64_t* begin = g.begin + b * (s + 1) + key;
    Acc sum[kColumns];
    for (int64_t c = 0; c < columns; ++c) sum[c] = 0;
    for (int64_t entry = begin[0]; entry < begin[1]; ++entry) {
      const int64_t i = g.slots[b * t * n + entry] / n;
      for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
        const Acc weight = g.weight(b, i, head, key), ds = as_key ? g.ds(b, i, head, key, weight) : Acc(0);
        for (int64_t c = 0; c < columns; ++c) {
          if (as_key) sum[c] += ds * static_cast<Acc>(g.x.q(b, i, head, first + c));
          if (as_value) sum[c] += weight * static_cast<Acc>(g.d_o(b, i, head, first + c));
        }
      }
    }
    for (int64_t c = 0; c < columns; ++c) result(b, key, key_head, first + c) = T(sum[c]);
  });
}

template <int kColumns, class T, class Loop>
void backward_loops(const Shape& shape, const Tensors& tensors, const Context& context, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Gradients<T> g(shape, tensors, context);
  const int64_t t = shape.t, h = shape.h, d = shape.d, dv = shape.dv, n = shape.n, group = shape.group();
  const auto o = tensors.o.elements<const T, 4>();
  const auto d_lse = tensors.d_lse.elements<const Acc, 3>();
  const auto dq = tensors.dq.elements<T, 4>();
  loop(shape.b * t * h, "sparse_attention delta", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (t * h), i = item / h % t, head = item % h;
    Acc sum = 0;
    for (int64_t c = 0; c < dv; ++c) sum += static_cast<Acc>(g.d_o(b, i, head, c)) * static_cast<Acc>(o(b, i, head, c));
    g.delta[item] = sum - d_lse(b, head, i);
  });
  loop(shape.b, "sparse_attention inverted index", [=] MEGATOKEN_HD(int64_t b) { g.invert(b); });

  const int64_t key_chunks = parts(d, kColumns);
  loop(shape.b * t * h * key_chunks, "sparse_attention dq", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t row = item / key_chunks, first = item % key_chunks * kColumns, b = row / (t * h), i = row / h % t, head = row % h;
    const int64_t columns = d - first < kColumns ? d - first : kColumns;
    Acc sum[kColumns];
    for (int64_t c = 0; c < columns; ++c) sum[c] = 0;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t key = g.x.id(b, i, j);
      if (!g.x.valid(key)) continue;
      const Acc ds = g.ds(b, i, head, key, g.weight(b, i, head, key));
      for (int64_t c = 0; c < columns; ++c) sum[c] += ds * static_cast<Acc>(g.x.k(b, key, head / group, first + c));
    }
    for (int64_t c = 0; c < columns; ++c) dq(b, i, head, first + c) = T(sum[c]);
  });

  key_loop<kColumns>(shape, g, tensors.dk.elements<T, 4>(), d, true, !shape.direct, "sparse_attention dk", loop);
  if (shape.direct) key_loop<kColumns>(shape, g, tensors.dv.elements<T, 4>(), dv, false, true, "sparse_attention dv", loop);
}

}  // namespace megatoken::sparse_attention
