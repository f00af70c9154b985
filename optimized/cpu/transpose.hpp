// Matrices turned in registers: kLanes × kLanes tiles, log2(kLanes) rounds of exchanging halves of pairs of rows.
#pragma once
#include "optimized/cpu/vector.hpp"

namespace megatoken::cpu {

/// One round on rows (a, b) that lie `step` apart: a gets the lanes of both whose bit `step` is clear, b those where it is set.
template <int kStep, class T>
inline void exchange(Vector<T>& a, Vector<T>& b) {
  Vector<LaneInt<T>> low, high;
  for (int i = 0; i < kLanes<T>; ++i) {
    const bool set = (i & kStep) != 0;
    low[i] = static_cast<LaneInt<T>>(set ? kLanes<T> + i - kStep : i);
    high[i] = static_cast<LaneInt<T>>(set ? kLanes<T> + i : i + kStep);
  }
  const Vector<T> first = __builtin_shuffle(a, b, low), second = __builtin_shuffle(a, b, high);
  a = first;
  b = second;
}

template <int kStep, class T>
inline void exchange_all(Vector<T> (&rows)[kLanes<T>]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i)
    if ((i & kStep) == 0) exchange<kStep, T>(rows[i], rows[i + kStep]);
  if constexpr (2 * kStep < kLanes<T>) exchange_all<2 * kStep, T>(rows);
}

/// to[j · to_row + i] = from[i · from_row + j]; rows and columns are multiples of kLanes.
template <class T>
void transpose(int64_t rows, int64_t columns, const T* from, int64_t from_row, T* to, int64_t to_row) {
  constexpr int kSide = kLanes<T>;
  for (int64_t i = 0; i < rows; i += kSide)
    for (int64_t j = 0; j < columns; j += kSide) {
      Vector<T> tile[kSide];
#pragma GCC unroll 16
      for (int r = 0; r < kSide; ++r) tile[r] = load(from + (i + r) * from_row + j);
      exchange_all<1, T>(tile);
#pragma GCC unroll 16
      for (int r = 0; r < kSide; ++r) store(to + (j + r) * to_row + i, tile[r]);
    }
}

}  // namespace megatoken::cpu
