// What forward and backward of sparse_attention/online share: the keys of one query gathered tile by tile, and scores with heads across.
//
// Scores of a tile are held keys × heads, heads padded to whole vectors: maximum, sum and exponential of all heads of a query are vertical
// vector operations, and one gathered row serves all of them. Padded heads have q = 0 and are never written out.
#pragma once
#include <algorithm>

#include "optimized/cpu/matmul.hpp"
#include "optimized/cpu/scratch.hpp"
#include "reference/components/sparse_attention/sparse_attention.hpp"

namespace megatoken::sparse_attention {

inline constexpr int64_t kTile = 64;  // keys

template <class Acc> int64_t padded(int64_t width) { return (width + cpu::kLanes<Acc> - 1) / cpu::kLanes<Acc> * cpu::kLanes<Acc>; }

template <class T>
struct Gather {
  using Acc = Accumulator<T>;
  const Shape& shape;
  Elements<const T, 4> q, k, v;
  Elements<const int32_t, 3> id;
  int64_t heads, d, dv;  // padded: query heads of one key head, widths

  Gather(const Shape& shape, const Tensors& x)
      : shape(shape), q(x.q.elements<const T, 4>()), k(x.k.elements<const T, 4>()), v((shape.direct ? x.v : x.k).template elements<const T, 4>()), id(x.id.elements<const int32_t, 3>()),
        heads(padded<Acc>(shape.group())), d(padded<Acc>(shape.d)), dv(padded<Acc>(shape.dv)) {}

  /// The keys of a query without its empty slots; returns how many.
  int64_t keys_of(int64_t b, int64_t i, int32_t* keys) const {
    int64_t count = 0;
    for (int64_t j = 0; j < shape.n; ++j)
      if (id(b, i, j) >= 0) keys[count++] = id(b, i, j);
    return count;
  }

  /// to: width × heads, the rows of all query heads of one key head, turned.
  void turn_heads(const Elements<const T, 4>& from, int64_t b, int64_t i, int64_t key_head, int64_t width, Acc* to) const {
    for (int64_t g = 0; g < heads; ++g)
      for (int64_t c = 0; c < width; ++c) to[c * heads + g] = g < shape.group() ? static_cast<Acc>(from(b, i, key_head * shape.group() + g, c)) : Acc{0};
  }

  /// to: keys × row, zeros behind the width.
  void rows(const Elements<const T, 4>& from, int64_t b, int64_t key_head, const int32_t* keys, int64_t count, int64_t width, Acc* to, int64_t row) const {
    for (int64_t j = 0; j < count; ++j, to += row) {
      const T* source = &from(b, keys[j], key_head, 0);
      const int64_t stride = from.stride[3];
      for (int64_t c = 0; c < width; ++c) to[c] = static_cast<Acc>(source[c * stride]);
      std::fill(to + width, to + row, Acc{0});
    }
  }

  /// Gathers a tile of keys (and of values, which may be the same rows) and forms its scores, keys × heads.
  void tile(int64_t b, int64_t key_head, const int32_t* keys, int64_t count, const Acc* q_turned, Acc* k_rows, Acc* v_rows, Acc* scores) const {
    rows(k, b, key_head, keys, count, shape.d, k_rows, d);
    if (shape.direct) rows(v, b, key_head, keys, count, shape.dv, v_rows, dv);
    cpu::multiply<Acc>(count, heads, shape.d, static_cast<Acc>(shape.scale), {k_rows, d}, {q_turned, heads}, {scores, heads});
  }
};

void online_backward(const Shape& shape, const Tensors& x, Context& context);
int64_t online_backward_workspace(const Shape& shape, DType dtype);

}  // namespace megatoken::sparse_attention
