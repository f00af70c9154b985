// hyper_connection: forward and backward, one token a step; parameter gradients as sums over tokens in order.
#pragma once
#include "reference/components/hyper_connection/mapping.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::hyper_connection {

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& v, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Site<T> site(s, v);
  const auto u = v.u.elements<const T, 3>();
  const auto y = v.y.elements<T, 3>();
  const auto x_out = v.x_out.elements<T, 4>();
  const auto pooled = s.exit ? v.pooled.elements<T, 3>() : Elements<T, 3>{};
  const auto post = v.post.elements<Acc, 3>();
  const auto comb = v.comb.elements<Acc, 4>();
  const bool exit = s.exit;
  loop(s.tokens(), "hyper_connection forward", [=] MEGATOKEN_HD(int64_t token) {
    const int64_t b = token / site.t, i = token % site.t;
    const int n = site.n;
    const Mapping<Acc> map = site.map(token);
    for (int q = 0; q < n; ++q) post(b, i, q) = map.post[q];
    for (int q = 0; q < n * n; ++q) comb(b, i, q / n, q % n) = map.comb[q];
    for (int64_t j = 0; j < site.c; ++j) {
      Acc in = 0, mean = 0;
      for (int q = 0; q < n; ++q) in += map.pre[q] * site.stream(token, q, j);
      y(b, i, j) = T(in);
      for (int to = 0; to < n; ++to) {
        Acc out = map.post[to] * static_cast<Acc>(u(b, i, j));
        for (int from = 0; from < n; ++from) out += map.comb[from * n + to] * site.stream(token, from, j);
        x_out(b, i, to, j) = T(out);
        mean += out;
      }
      if (exit) pooled(b, i, j) = T(mean / static_cast<Acc>(n));
    }
  });
}

/// Scratch of backward, one line a token.
template <class Acc>
struct Scratch {
  Acc *r_dm, *da, *m, *z_factor;  // tokens k · tokens k · tokens k · tokens
  Scratch(const Shape& s, Context& context) {
    r_dm = reinterpret_cast<Acc*>(context.workspace.data());
    da = r_dm + s.tokens() * s.k;
    m = da + s.tokens() * s.k;
    z_factor = m + s.tokens() * s.k;
  }
};

template <class T, class Loop>
void backward_loops(const Shape& s, const Tensors& v, Context& context, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Site<T> site(s, v);
  const Scratch<Acc> scratch(s, context);
  const auto u = v.u.elements<const T, 3>(), d_y = v.d_y.elements<const T, 3>();
  const auto d_x_out = v.d_x_out.elements<const T, 4>();
  const auto d_pooled = s.exit ? v.d_pooled.elements<const T, 3>() : Elements<const T, 3>{};
  const auto du = v.du.elements<T, 3>(), de = s.entry ? v.de.elements<T, 3>() : Elements<T, 3>{};
  const auto dx = s.entry ? Elements<T, 4>{} : v.dx.elements<T, 4>();
  const auto dfn = v.dfn.elements<Acc, 3>();
  const auto dbase = v.dbase.elements<Acc, 1>(), dscale = v.dscale.elements<Acc, 1>();
  const bool exit = s.exit;
  const int64_t tokens = s.tokens(), c = s.c;

  loop(tokens, "hyper_connection dx du", [=] MEGATOKEN_HD(int64_t token) {
    const int64_t b = token / site.t, i = token % site.t;
    const int n = site.n, k = site.k;
    const Mapping<Acc> map = site.map(token);
    const auto upstream = [&](int to, int64_t j) {
      return static_cast<Acc>(d_x_out(b, i, to, j)) + (exit ? static_cast<Acc>(d_pooled(b, i, j)) / static_cast<Acc>(n) : Acc{0});
    };
    Acc d[kMaxMaps];  // of pre, post, comb; then of a; then of m
    for (int q = 0; q < k; ++q) d[q] = 0;
    for (int64_t j = 0; j < c; ++j) {
      Acc sum = 0;
      for (int to = 0; to < n; ++to) {
        const Acc g = upstream(to, j);
        sum += map.post[to] * g;
        d[n + to] += g * static_cast<Acc>(u(b, i, j));
        for (int from = 0; from < n; ++from) d[2 * n + from * n + to] += site.stream(token, from, j) * g;
      }
      du(b, i, j) = T(sum);
      for (int from = 0; from < n; ++from) d[from] += static_cast<Acc>(d_y(b, i, j)) * site.stream(token, from, j);
    }
    for (int q = 0; q < n; ++q) {
      const Acc pre = sigmoid(map.a[q]), half_post = map.post[q] / 2;
      d[q] *= pre * (1 - pre);
      d[n + q] *= 2 * half_post * (1 - half_post);
    }
    sinkhorn_backward(map.a + 2 * n, d + 2 * n, n, site.rounds, site.hc_eps);
    Acc dot = 0;
    for (int q = 0; q < k; ++q) {
      scratch.da[token * k + q] = d[q];
      scratch.m[token * k + q] = map.m[q];
      d[q] *= site.scale(group_of(q, n));
      dot += d[q] * map.p[q];
      scratch.r_dm[token * k + q] = map.r * d[q];
    }
    const Acc z_factor = map.r * map.r * map.r / static_cast<Acc>(n * c) * dot;
    for (int64_t j = 0; j < c; ++j) {
      Acc all = 0;
      for (int from = 0; from < n; ++from) {
        Acc g = map.pre[from] * static_cast<Acc>(d_y(b, i, j)) - z_factor * site.stream(token, from, j);
        for (int to = 0; to < n; ++to) g += map.comb[from * n + to] * upstream(to, j);
        for (int q = 0; q < k; ++q) g += site.fn(q, from, j) * map.r * d[q];
        if (site.entry) all += g;
        else dx(b, i, from, j) = T(g);
      }
      if (site.entry) de(b, i, j) = T(all);
    }
  });
  const int n = static_cast<int>(s.n), k = static_cast<int>(s.k);
  loop(k * n * c, "hyper_connection dfn", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t q = item / (n * c), i = item / c % n, j = item % c;
    Acc sum = 0;
    for (int64_t token = 0; token < tokens; ++token) sum += scratch.r_dm[token * k + q] * site.stream(token, static_cast<int>(i), j);
    dfn(q, i, j) = sum;
  });
  loop(k + 3, "hyper_connection dbase dscale", [=] MEGATOKEN_HD(int64_t item) {
    Acc sum = 0;
    for (int64_t token = 0; token < tokens; ++token)
      for (int q = 0; q < k; ++q) {
        const Acc da = scratch.da[token * k + q];
        if (item < k) sum += q == item ? da : Acc{0};
        else sum += group_of(q, n) == item - k ? da * scratch.m[token * k + q] : Acc{0};
      }
    if (item < k) dbase(item) = sum;
    else dscale(item - k) = sum;
  });
}

}  // namespace megatoken::hyper_connection
