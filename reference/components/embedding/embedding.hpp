// embedding: a table row for every token id; its gradient adds up the rows that used it.
//
//   y_i = table[id_i]      dtable[v] = Σ_{i: id_i = v} dy_i, in the order of i, so the same bits every time
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::embedding {

struct Shape {
  int64_t b, t, c, v;
  explicit Shape(const Axes& axes) : b(axes["b"]), t(axes["t"]), c(axes["c"]), v(axes["v"]) {}
};

struct Tensors {
  using Shape = embedding::Shape;
  static constexpr const char* kComponent = "embedding";

  TensorView id, table;       // b t (int32, 0 ≤ id < v) · v c
  TensorView y, d_y, dtable;  // b t c · b t c · v c (accumulator)

  static std::vector<FieldOf<Tensors>> fields();
};

/// Throws a usage error that names the first id outside [0, v). Host tensors.
void check_ids(const Shape& shape, const Tensors& tensors);

}  // namespace megatoken::embedding
