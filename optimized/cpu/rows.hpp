// Rows of tensors to and from the accumulator: what a tile reads from a narrower dtype or a strided view, and what it writes back.
#pragma once
#include <algorithm>
#include <type_traits>

#include "optimized/cpu/vector.hpp"
#include "reference/core/tensor.hpp"

namespace megatoken::cpu {

template <class T, class Acc>
void widen(const T* from, int64_t stride, int64_t count, Acc* to) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Acc>(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Acc>(from[i * stride]);
  }
}

/// Rounds once.
template <class Acc, class T>
void narrow(const Acc* from, int64_t count, T* to, int64_t stride) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * stride] = static_cast<T>(from[i]);
  }
}

/// Widened, then zeros up to `padded` numbers.
template <class T, class Acc>
void widen_padded(const T* from, int64_t stride, int64_t count, int64_t padded, Acc* to) {
  widen(from, stride, count, to);
  std::fill(to + count, to + padded, Acc{0});
}

/// `padded` numbers for reading in vectors: where they lie, or widened into scratch when they are narrower, strided or fewer.
template <class T, class Acc>
const Acc* readable(const T* from, int64_t stride, int64_t count, int64_t padded, Acc* scratch) {
  if constexpr (std::is_same_v<T, Acc>)
    if (stride == 1 && count == padded) return from;
  widen_padded(from, stride, count, padded, scratch);
  return scratch;
}
/// Padded to whole vectors.
template <class T, class Acc>
const Acc* readable(const T* from, int64_t stride, int64_t count, Acc* scratch) {
  return readable(from, stride, count, (count + kLanes<Acc> - 1) / kLanes<Acc> * kLanes<Acc>, scratch);
}
/// Where to form numbers that go to `to`: there, or in scratch; landed() brings them home.
template <class Acc, class T>
Acc* writable(T* to, int64_t stride, int64_t count, Acc* scratch) {
  if constexpr (std::is_same_v<T, Acc>)
    if (stride == 1 && count % kLanes<Acc> == 0) return to;
  return scratch;
}
template <class Acc, class T>
void landed(const Acc* formed, int64_t count, T* to, int64_t stride) {
  if constexpr (std::is_same_v<T, Acc>)
    if (formed == to) return;
  narrow(formed, count, to, stride);
}

/// Row `row` of x[b, t, c], rows counted through the batch.
template <class T>
struct Rows {
  Elements<T, 3> elements;
  int64_t t, c;

  Rows() = default;
  explicit Rows(const TensorView& view) : elements(view.elements<T, 3>()), t(view.shape[1]), c(view.shape[2]) {}
  T* at(int64_t row) const { return &elements(row / t, row % t, 0); }
  int64_t stride() const { return elements.stride[2]; }

  template <class Acc>
  void read(int64_t row, Acc* to) const { widen(at(row), stride(), c, to); }
  template <class Acc>
  void write(int64_t row, const Acc* from) const { narrow(from, c, at(row), stride()); }
};

}  // namespace megatoken::cpu
