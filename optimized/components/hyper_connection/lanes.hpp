// hyper_connection: the mapping of as many tokens as a vector has lanes, one token a lane, and its reverse from the kept Sinkhorn steps.
#pragma once
#include "optimized/cpu/vector.hpp"
#include "reference/components/hyper_connection/hyper_connection.hpp"

namespace megatoken::hyper_connection {

template <class V>
V sigmoid_lanes(V a) { return 1 / (1 + cpu::exp(-a)); }

/// An n × n matrix a lane, seen along rows (axis 0) or columns (axis 1).
struct Lines {
  int n, axis;
  int at(int line, int i) const { return axis == 0 ? line * n + i : i * n + line; }
};

template <class Acc>
struct LaneMapping {
  using V = cpu::Vector<Acc>;
  V r, p[kMaxMaps], m[kMaxMaps], a[kMaxMaps];
  V pre[kMaxStreams], post[kMaxStreams], soft[kMaxStreams * kMaxStreams];
  V* steps;  // n² a step: what step i reads; behind the last one comb

  static int64_t steps_size(const Shape& s) { return 2 * s.rounds * s.n * s.n; }
  /// Even steps normalise columns, odd ones rows; the softmax was the first row step.
  static Lines lines(int n, int64_t step) { return {n, step % 2 == 0 ? 1 : 0}; }
  const V* comb(const Shape& s) const { return steps + (2 * s.rounds - 1) * s.n * s.n; }

  /// From r and p.
  void run(const Shape& s, const Acc* base, const Acc* scale) {
    const int n = static_cast<int>(s.n), k = static_cast<int>(s.k);
    const Acc eps = static_cast<Acc>(s.hc_eps);
    for (int q = 0; q < k; ++q) {
      m[q] = r * p[q];
      a[q] = scale[q < n ? 0 : q < 2 * n ? 1 : 2] * m[q] + base[q];
    }
    for (int i = 0; i < n; ++i) {
      pre[i] = sigmoid_lanes(a[i]) + eps;
      post[i] = 2 * sigmoid_lanes(a[n + i]);
    }
    const V* logits = a + 2 * n;
    for (int i = 0; i < n; ++i) {
      V largest = logits[i * n], sum{};
      for (int j = 1; j < n; ++j) largest = logits[i * n + j] > largest ? logits[i * n + j] : largest;
      for (int j = 0; j < n; ++j) sum += soft[i * n + j] = cpu::exp(logits[i * n + j] - largest);
      for (int j = 0; j < n; ++j) steps[i * n + j] = (soft[i * n + j] /= sum) + eps;
    }
    for (int64_t step = 0; step + 1 < 2 * s.rounds; ++step) {
      const Lines by = lines(n, step);
      const V* from = steps + step * n * n;
      V* to = steps + (step + 1) * n * n;
      for (int line = 0; line < n; ++line) {
        V sum = cpu::all(eps);
        for (int i = 0; i < n; ++i) sum += from[by.at(line, i)];
        for (int i = 0; i < n; ++i) to[by.at(line, i)] = from[by.at(line, i)] / sum;
      }
    }
  }

  /// d: gradients of pre, post, comb become those of a.
  void reverse(const Shape& s, V* d) const {
    const int n = static_cast<int>(s.n);
    for (int i = 0; i < n; ++i) {
      const V sigma = sigmoid_lanes(a[i]), half = post[i] / 2;
      d[i] *= sigma * (1 - sigma);
      d[n + i] *= 2 * half * (1 - half);
    }
    V* gradient = d + 2 * n;
    for (int64_t step = 2 * s.rounds - 2; step >= 0; --step) {  // N = M / (s + ε): dM = (dN − Σ dN∘N) / (s + ε)
      const Lines by = lines(n, step);
      const V *before = steps + step * n * n, *after = before + n * n;
      for (int line = 0; line < n; ++line) {
        V sum = cpu::all(static_cast<Acc>(s.hc_eps)), dot{};
        for (int i = 0; i < n; ++i) sum += before[by.at(line, i)], dot += gradient[by.at(line, i)] * after[by.at(line, i)];
        for (int i = 0; i < n; ++i) gradient[by.at(line, i)] = (gradient[by.at(line, i)] - dot) / sum;
      }
    }
    for (int i = 0; i < n; ++i) {
      V dot{};
      for (int j = 0; j < n; ++j) dot += gradient[i * n + j] * soft[i * n + j];
      for (int j = 0; j < n; ++j) gradient[i * n + j] = soft[i * n + j] * (gradient[i * n + j] - dot);
    }
  }
};

}  // namespace megatoken::hyper_connection
