// Backward of one query and one key head, shared by sparse_attention/online and online_atomics:
//   [S; dP] = [q; do] Kᵀ;   P = e^{scale S − lse},  dS = scale P (dP − Δ);   dq = dS K
//   and what its slots give to their keys:  [dS; P]ᵀ [q; do], one product for a latent row that is key and value
// With values of their own, the lower halves meet V instead and become dv.
#pragma once
#include "optimized/components/sparse_attention/gather.hpp"

namespace megatoken::sparse_attention {

template <class Acc>
struct QueryScratch {
  Acc *o, *delta, *dq, *sums;  // dv · group · group × d · kTile × the wider of d and dv
  Tile<Acc> k, v;

  QueryScratch(const Shape& s, cpu::Arena& arena) : k(s.d, arena), v(s.direct ? Tile<Acc>(s.dv, arena) : k) {
    o = arena.take<Acc>(s.dv), delta = arena.take<Acc>(s.group()), dq = arena.take<Acc>(s.group() * padded<Acc>(s.d)), sums = arena.take<Acc>(kTile * padded<Acc>(std::max(s.d, s.dv)));
  }
};

/// What backward keeps of one query until its keys have their gradients.
template <class Acc>
struct Kept {
  int32_t* keys;
  Acc* left;     // q: group × d, then do: group × dv, padded
  Acc* weights;  // dS: group × slots(shape), then P
  static int64_t slots(const Shape& s) { return padded<Acc>(s.n); }
  static int64_t left_size(const Shape& s) { return s.group() * (padded<Acc>(s.d) + padded<Acc>(s.dv)); }
  static int64_t weights_size(const Shape& s) { return 2 * s.group() * slots(s); }
};

template <class T>
struct Backward {
  using Acc = Accumulator<T>;
  const Shape& shape;
  Gather<T> gather;
  Elements<const T, 4> o, d_o;
  Elements<const Acc, 3> lse, d_lse;
  Elements<T, 4> dq;

  Backward(const Shape& s, const Tensors& x)
      : shape(s), gather(s, x), o(x.o.elements<const T, 4>()), d_o(x.d_o.elements<const T, 4>()), lse(x.lse.elements<const Acc, 3>()), d_lse(x.d_lse.elements<const Acc, 3>()),
        dq(x.dq.elements<T, 4>()) {}

  /// dq, and kept.left and kept.weights from kept.keys.
  void query(int64_t b, int64_t i, int64_t key_head, int64_t count, const Kept<Acc>& kept, const QueryScratch<Acc>& s) const {
    const int64_t group = shape.group(), d = gather.d, dv = gather.dv, slots = Kept<Acc>::slots(shape);
    Acc *const left_value = kept.left + group * d, *const weights_value = kept.weights + group * slots;
    gather.heads(gather.q, b, i, key_head, shape.d, kept.left);
    gather.heads(d_o, b, i, key_head, shape.dv, left_value);
    for (int64_t g = 0; g < group; ++g) {
      const int64_t head = key_head * group + g;
      cpu::widen(&o(b, i, head, 0), o.stride[3], shape.dv, s.o);
      s.delta[g] = cpu::dot(left_value + g * dv, s.o, shape.dv) - d_lse(b, head, i);
    }
    std::fill(s.dq, s.dq + group * d, Acc{0});
    for (int64_t at = 0; at < count; at += kTile) {
      const int64_t keys = std::min(kTile, count - at), columns = padded<Acc>(keys);
      gather.tile(gather.k, b, key_head, kept.keys + at, keys, shape.d, s.k);
      if (shape.direct) {
        gather.tile(gather.v, b, key_head, kept.keys + at, keys, shape.dv, s.v);
        cpu::multiply<Acc>(group, columns, shape.d, Acc{1}, {kept.left, d}, {s.k.turned, kTile}, {kept.weights + at, slots});
        cpu::multiply<Acc>(group, columns, shape.dv, Acc{1}, {left_value, dv}, {s.v.turned, kTile}, {weights_value + at, slots});
      } else {
        cpu::multiply<Acc>(2 * group, columns, shape.d, Acc{1}, {kept.left, d}, {s.k.turned, kTile}, {kept.weights + at, slots});
      }
      for (int64_t g = 0; g < group; ++g) weigh(kept.weights + g * slots + at, weights_value + g * slots + at, columns, lse(b, key_head * group + g, i), s.delta[g]);
      cpu::multiply_add<Acc>(group, d, keys, {kept.weights + at, slots}, {s.k.rows, d}, {s.dq, d});
    }
    for (int64_t g = 0; g < group; ++g) cpu::narrow(s.dq + g * d, shape.d, &dq(b, i, key_head * group + g, 0), dq.stride[3]);
  }

  /// Slots [at, end) of a query to the gradients of their keys, one after the other: add(gradient row, sum, padded width).
  template <class Add>
  void add_slots(const Kept<Acc>& kept, int64_t at, int64_t end, Acc* dk, Acc* dv, const QueryScratch<Acc>& s, const Add& add) const {
    const int64_t group = shape.group(), d = gather.d, slots = Kept<Acc>::slots(shape);
    for (; at < end; at += kTile) {
      const int64_t count = std::min(kTile, end - at);
      const auto product = [&](int64_t first, int64_t heads, int64_t width, const Acc* left, Acc* to) {
        cpu::multiply<Acc>(count, width, heads, Acc{1}, {kept.weights + first * slots + at, 1, slots}, {left, width}, {s.sums, width});
        for (int64_t j = 0; j < count; ++j) add(to + kept.keys[at + j] * width, s.sums + j * width, width);
      };
      product(0, shape.direct ? group : 2 * group, d, kept.left, dk);
      if (shape.direct) product(group, group, gather.dv, kept.left + group * d, dv);
    }
  }

 private:
  /// (S, dP) of one head become (dS, P).
  void weigh(Acc* s, Acc* dp, int64_t columns, Acc lse, Acc delta) const {
    const auto scale = static_cast<Acc>(shape.scale);
    for (int64_t j = 0; j < columns; j += cpu::kLanes<Acc>) {
      const auto p = cpu::exp(scale * cpu::load(s + j) - lse);
      cpu::store<Acc>(s + j, scale * p * (cpu::load(dp + j) - delta));
      cpu::store<Acc>(dp + j, p);
    }
  }
};

}  // namespace megatoken::sparse_attention
