// hyper_connection: the mapping of one token and its reverse, on numbers held in registers. Host and device.
#pragma once
#include <cmath>

#include "reference/components/hyper_connection/hyper_connection.hpp"
#include "reference/core/host_device.hpp"

namespace megatoken::hyper_connection {

template <class Acc>
MEGATOKEN_HD Acc sigmoid(Acc a) { return 1 / (1 + std::exp(-a)); }

/// Divides every row (axis 0) or column (axis 1) of an n × n matrix by (its sum + eps).
template <class Acc>
MEGATOKEN_HD void normalise(Acc* e, int n, int axis, Acc eps) {
  for (int line = 0; line < n; ++line) {
    Acc sum = 0;
    for (int i = 0; i < n; ++i) sum += e[axis == 0 ? line * n + i : i * n + line];
    for (int i = 0; i < n; ++i) e[axis == 0 ? line * n + i : i * n + line] /= sum + eps;
  }
}

/// N = M/(s + eps): dM = (dN − Σ dN∘N) / (s + eps), line by line; `before` is M, `after` N.
template <class Acc>
MEGATOKEN_HD void normalise_backward(const Acc* before, const Acc* after, Acc* gradient, int n, int axis, Acc eps) {
  for (int line = 0; line < n; ++line) {
    Acc sum = 0, dot = 0;
    for (int i = 0; i < n; ++i) {
      const int at = axis == 0 ? line * n + i : i * n + line;
      sum += before[at];
      dot += gradient[at] * after[at];
    }
    for (int i = 0; i < n; ++i) {
      const int at = axis == 0 ? line * n + i : i * n + line;
      gradient[at] = (gradient[at] - dot) / (sum + eps);
    }
  }
}

/// The softmax over j of every row.
template <class Acc>
MEGATOKEN_HD void row_softmax(const Acc* logits, Acc* p, int n) {
  for (int i = 0; i < n; ++i) {
    Acc largest = logits[i * n], sum = 0;
    for (int j = 1; j < n; ++j) largest = logits[i * n + j] > largest ? logits[i * n + j] : largest;
    for (int j = 0; j < n; ++j) sum += p[i * n + j] = std::exp(logits[i * n + j] - largest);
    for (int j = 0; j < n; ++j) p[i * n + j] /= sum;
  }
}

/// After step s (0-based): odd numbers of steps end on rows, even ones on columns; `steps` = 2·rounds − 1 after the softmax.
template <class Acc>
MEGATOKEN_HD void sinkhorn_steps(Acc* e, int n, int steps, Acc eps) {
  for (int step = 0; step < steps; ++step) normalise(e, n, step % 2 == 0 ? 1 : 0, eps);
}

template <class Acc>
MEGATOKEN_HD void sinkhorn(const Acc* logits, Acc* comb, int n, int rounds, Acc eps) {
  row_softmax(logits, comb, n);
  for (int i = 0; i < n * n; ++i) comb[i] += eps;
  sinkhorn_steps(comb, n, 2 * rounds - 1, eps);
}

/// Gradient of the logits. Every step's input is made again from the start: slow, and nothing to keep.
template <class Acc>
MEGATOKEN_HD void sinkhorn_backward(const Acc* logits, Acc* gradient, int n, int rounds, Acc eps) {
  Acc p[kMaxStreams * kMaxStreams], before[kMaxStreams * kMaxStreams], after[kMaxStreams * kMaxStreams];
  row_softmax(logits, p, n);
  for (int step = 2 * rounds - 2; step >= 0; --step) {
    for (int i = 0; i < n * n; ++i) before[i] = p[i] + eps;
    sinkhorn_steps(before, n, step, eps);
    const int axis = step % 2 == 0 ? 1 : 0;
    for (int i = 0; i < n * n; ++i) after[i] = before[i];
    normalise(after, n, axis, eps);
    normalise_backward(before, after, gradient, n, axis, eps);
  }
  for (int i = 0; i < n; ++i) {
    Acc dot = 0;
    for (int j = 0; j < n; ++j) dot += gradient[i * n + j] * p[i * n + j];
    for (int j = 0; j < n; ++j) gradient[i * n + j] = p[i * n + j] * (gradient[i * n + j] - dot);
  }
}

/// Everything that the mapping of one token gives.
template <class Acc>
struct Mapping {
  Acc r, p[kMaxMaps], m[kMaxMaps], a[kMaxMaps];
  Acc pre[kMaxStreams], post[kMaxStreams], comb[kMaxStreams * kMaxStreams];
};

/// 0 pre, 1 post, 2 comb.
MEGATOKEN_HD inline int group_of(int k, int n) { return k < n ? 0 : k < 2 * n ? 1 : 2; }

/// Typed views and the token's mapping.
template <class T>
struct Site {
  using Acc = Accumulator<T>;
  Elements<const T, 4> x;
  Elements<const T, 3> e;
  Elements<const Acc, 3> fn;
  Elements<const Acc, 1> base, scale;
  int64_t t, c;
  int n, k, rounds;
  bool entry;
  Acc eps, hc_eps;

  Site(const Shape& s, const Tensors& v)
      : fn(v.fn.elements<const Acc, 3>()), base(v.base.elements<const Acc, 1>()), scale(v.scale.elements<const Acc, 1>()), t(s.t), c(s.c), n(static_cast<int>(s.n)),
        k(static_cast<int>(s.k)), rounds(static_cast<int>(s.rounds)), entry(s.entry), eps(static_cast<Acc>(s.eps)), hc_eps(static_cast<Acc>(s.hc_eps)) {
    if (entry) e = v.e.elements<const T, 3>();
    else x = v.x.elements<const T, 4>();
  }
  MEGATOKEN_HD Acc stream(int64_t token, int i, int64_t j) const {
    return static_cast<Acc>(entry ? e(token / t, token % t, j) : x(token / t, token % t, i, j));
  }
  MEGATOKEN_HD Mapping<Acc> map(int64_t token) const {
    Mapping<Acc> map;
    Acc square = 0;
    for (int q = 0; q < k; ++q) map.p[q] = 0;
    for (int i = 0; i < n; ++i)
      for (int64_t j = 0; j < c; ++j) {
        const Acc z = stream(token, i, j);
        square += z * z;
        for (int q = 0; q < k; ++q) map.p[q] += fn(q, i, j) * z;
      }
    map.r = 1 / std::sqrt(square / static_cast<Acc>(n * c) + eps);
    for (int q = 0; q < k; ++q) {
      map.m[q] = map.r * map.p[q];
      map.a[q] = scale(group_of(q, n)) * map.m[q] + base(q);
    }
    for (int i = 0; i < n; ++i) {
      map.pre[i] = sigmoid(map.a[i]) + hc_eps;
      map.post[i] = 2 * sigmoid(map.a[n + i]);
    }
    sinkhorn(map.a + 2 * n, map.comb, n, rounds, hc_eps);
    return map;
  }
};

}  // namespace megatoken::hyper_connection
