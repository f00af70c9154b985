// embedding: the formulas of embedding.hpp, one element of a result a step.
#pragma once
#include "reference/components/embedding/embedding.hpp"
#include "reference/core/host_device.hpp"

namespace megatoken::embedding {

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& x, const Loop& loop) {
  const auto id = x.id.elements<const int32_t, 2>();
  const auto table = x.table.elements<const T, 2>();
  const auto y = x.y.elements<T, 3>();
  const int64_t t = s.t, c = s.c;
  loop(s.b * t * c, "embedding forward", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (t * c), i = item / c % t, j = item % c;
    y(b, i, j) = table(id(b, i), j);
  });
}

template <class T, class Loop>
void backward_loops(const Shape& s, const Tensors& x, const Loop& loop) {
  using Acc = Accumulator<T>;
  const auto id = x.id.elements<const int32_t, 2>();
  const auto d_y = x.d_y.elements<const T, 3>();
  const auto dtable = x.dtable.elements<Acc, 2>();
  const int64_t rows = s.b * s.t, t = s.t, c = s.c;
  loop(s.v * c, "embedding dtable", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t v = item / c, j = item % c;
    Acc sum = 0;
    for (int64_t row = 0; row < rows; ++row)
      if (id(row / t, row % t) == v) sum += static_cast<Acc>(d_y(row / t, row % t, j));
    dtable(v, j) = sum;
  });
}

}  // namespace megatoken::embedding
