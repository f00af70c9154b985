// Tiles of 64 queries or keys, for attention on the CPU: which tiles see each other at all, and rows of any dtype and strides
// unpacked to the accumulator's type.
#pragma once
#include <algorithm>

#include "optimized/cpu/vector.hpp"
#include "reference/components/attention/attention.hpp"

namespace megatoken::attention {

inline constexpr int64_t kTile = 64;

/// Smallest and largest position and document of some queries or keys.
struct Range {
  int32_t first_position = INT32_MAX, last_position = INT32_MIN, first_document = INT32_MAX, last_document = INT32_MIN;

  void include(const Range& other) {
    first_position = std::min(first_position, other.first_position);
    last_position = std::max(last_position, other.last_position);
    first_document = std::min(first_document, other.first_document);
    last_document = std::max(last_document, other.last_document);
  }
};

/// How much of a tile of pairs is visible.
enum class Sight { None, Some, All };

inline Sight sight(const Range& q, const Range& k, bool causal) {
  if (q.last_document < 0 || k.last_document < 0 || q.last_document < k.first_document || k.last_document < q.first_document) return Sight::None;
  if (causal && k.first_position > q.last_position) return Sight::None;
  const bool one_document = q.first_document == q.last_document && k.first_document == k.last_document;  // the same, and no padding, by the above
  return one_document && (!causal || k.last_position <= q.first_position) ? Sight::All : Sight::Some;
}

/// Positions and documents of queries or keys.
struct Tokens {
  Elements<const int32_t, 1> position;
  Elements<const int32_t, 2> document;

  Tokens(const TensorView& position, const TensorView& document)
      : position(position.elements<const int32_t, 1>()), document(document.elements<const int32_t, 2>()) {}

  bool padding(int64_t b, int64_t i) const { return document(b, i) < 0; }
  Range range(int64_t b, int64_t begin, int64_t end) const {
    Range range;
    for (int64_t i = begin; i < end; ++i) range.include({position(i), position(i), document(b, i), document(b, i)});
    return range;
  }
};

/// Positions and documents of one tile of queries, as wide as the scores, to be compared with one key at a time.
template <class Acc>
struct QueryTokens {
  using Int = cpu::LaneInt<Acc>;
  Int position[kTile], document[kTile];

  void load(const Tokens& tokens, int64_t b, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < kTile; ++i) {
      const bool padding = begin + i >= end || tokens.padding(b, begin + i);
      position[i] = padding ? 0 : tokens.position(begin + i);
      document[i] = padding ? -2 : tokens.document(b, begin + i);  // equal to no key's document: padding keys have −1
    }
  }
  /// Lanes of vector v that see a key.
  cpu::Vector<Int> visible(int v, Int key_position, Int key_document, bool causal) const {
    const auto same = cpu::load(document + v * cpu::kLanes<Acc>) == key_document;
    return causal ? same & (cpu::load(position + v * cpu::kLanes<Acc>) >= key_position) : same;
  }
};

/// Rows [begin, end) of x[b, :, head, :width] into rows of `stride` numbers, zeros behind the width. Padding tokens become zeros:
/// nothing may come out of them, not even a NaN.
template <class T, class Acc>
void unpack_rows(const Elements<const T, 4>& x, const Tokens& tokens, int64_t b, int64_t head, int64_t begin, int64_t end, int64_t width, Acc* rows, int64_t stride) {
  for (int64_t i = begin; i < end; ++i, rows += stride) {
    const T* from = &x(b, i, head, 0);
    const int64_t filled = tokens.padding(b, i) ? 0 : width;
    if (x.stride[3] == 1) {
      for (int64_t c = 0; c < filled; ++c) rows[c] = static_cast<Acc>(from[c]);
    } else {
      for (int64_t c = 0; c < filled; ++c) rows[c] = static_cast<Acc>(from[c * x.stride[3]]);
    }
    std::fill(rows + filled, rows + stride, Acc{0});
  }
}

/// The first `count` of kTile rows, turned so that queries lie side by side: columns[c · kTile + i] = rows[i · stride + c]; the other lanes become zeros.
template <class Acc>
void transpose_rows(const Acc* rows, int64_t stride, int64_t count, int64_t width, Acc* columns) {
  for (int64_t c = 0; c < width; ++c) {
    for (int64_t i = 0; i < count; ++i) columns[c * kTile + i] = rows[i * stride + c];
    std::fill(columns + c * kTile + count, columns + (c + 1) * kTile, Acc{0});
  }
}

}  // namespace megatoken::attention
