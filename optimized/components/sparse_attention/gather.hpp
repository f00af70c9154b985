// What forward and backward of sparse_attention/online share: the keys of one query gathered tile by tile, in rows and turned.
//
// A tile is held twice: as rows (keys × width) for sums over keys, and turned (width × keys) for products with q and do, whose results lie
// heads × keys. Lanes are keys in one and channels in the other, so no lane is idle however few heads share a key; one gathered row serves
// all of them. Columns behind the last key are zeros up to a whole vector.
#pragma once
#include <algorithm>

#include "optimized/cpu/matmul.hpp"
#include "optimized/cpu/rows.hpp"
#include "optimized/cpu/scratch.hpp"
#include "optimized/cpu/transpose.hpp"
#include "reference/components/sparse_attention/sparse_attention.hpp"

namespace megatoken::sparse_attention {

inline constexpr int64_t kTile = 64;  // keys

template <class Acc> int64_t padded(int64_t width) { return (width + cpu::kLanes<Acc> - 1) / cpu::kLanes<Acc> * cpu::kLanes<Acc>; }

template <class Acc>
struct Tile {
  Acc *rows, *turned;  // kTile × padded width · padded width × kTile
  Tile(int64_t width, cpu::Arena& arena) : rows(arena.take<Acc>(kTile * padded<Acc>(width))), turned(arena.take<Acc>(padded<Acc>(width) * kTile)) {}
};

template <class T>
struct Gather {
  using Acc = Accumulator<T>;
  const Shape& shape;
  const Tensors& tensors;
  Elements<const T, 4> q, k, v;
  Elements<const int32_t, 3> id;
  int64_t d, dv;  // padded widths

  Gather(const Shape& shape, const Tensors& x)
      : shape(shape), tensors(x), q(x.q.elements<const T, 4>()), k(x.k.elements<const T, 4>()), v((shape.direct ? x.v : x.k).template elements<const T, 4>()),
        id(x.id.elements<const int32_t, 3>()), d(padded<Acc>(shape.d)), dv(padded<Acc>(shape.dv)) {}

  /// The keys of a query without its empty slots; returns how many. Throws for ids that are no key token.
  int64_t keys_of(int64_t b, int64_t i, int32_t* keys) const {
    const int32_t* ids = &id(b, i, 0);
    const int64_t stride = id.stride[2];
    int64_t count = 0;
    bool wrong = false;
    for (int64_t j = 0; j < shape.n; ++j) {
      const int32_t key = ids[j * stride];
      keys[count] = key;
      count += key >= 0;
      wrong |= key < -1 || key >= shape.s;
    }
    if (wrong) check_ids(shape, tensors);
    return count;
  }

  /// to: group × padded width, the rows of all query heads of one key head.
  void heads(const Elements<const T, 4>& from, int64_t b, int64_t i, int64_t key_head, int64_t width, Acc* to) const {
    for (int64_t g = 0; g < shape.group(); ++g, to += padded<Acc>(width)) row(&from(b, i, key_head * shape.group() + g, 0), from.stride[3], width, to);
  }

  /// to: keys × padded width.
  void rows(const Elements<const T, 4>& from, int64_t b, int64_t key_head, const int32_t* keys, int64_t count, int64_t width, Acc* to) const {
    for (int64_t j = 0; j < count; ++j, to += padded<Acc>(width)) row(&from(b, keys[j], key_head, 0), from.stride[3], width, to);
  }
  void tile(const Elements<const T, 4>& from, int64_t b, int64_t key_head, const int32_t* keys, int64_t count, int64_t width, const Tile<Acc>& to) const {
    const int64_t wide = padded<Acc>(width), columns = padded<Acc>(count);
    rows(from, b, key_head, keys, count, width, to.rows);
    std::fill(to.rows + count * wide, to.rows + columns * wide, Acc{0});
    cpu::transpose(columns, wide, to.rows, wide, to.turned, kTile);
  }

 private:
  static void row(const T* from, int64_t stride, int64_t width, Acc* to) {
    cpu::widen(from, stride, width, to);
    std::fill(to + width, to + padded<Acc>(width), Acc{0});
  }
};

/// What the two variants share; they differ in how backward adds up dk and dv.
void online_forward(const Shape& shape, const Tensors& x, Context& context);
int64_t online_forward_workspace(const Shape& shape, DType dtype);

}  // namespace megatoken::sparse_attention
