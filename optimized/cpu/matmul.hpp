// Small dense products of fp32 or fp64 on one thread, blocked for registers: 8 × 2 vectors of C stay in registers while the
// inner dimension runs, so a step needs 2 loads and 8 broadcasts for 16 multiply-adds. Meant for tiles that lie in cache.
#pragma once
#include <utility>

#include "optimized/cpu/vector.hpp"

namespace megatoken::cpu {

/// Read number by number, so any strides are fine: element (i, j) at data[i · row + j · column].
template <class Real>
struct Matrix {
  const Real* data;
  int64_t row, column = 1;
};

/// Read and written in vectors: rows are contiguous and hold a multiple of kLanes numbers.
template <class Real>
struct Panel {
  Real* data;
  int64_t row;
};

#ifdef __AVX512F__
inline constexpr int kBlockRows = 8, kBlockVectors = 2;  // 16 of 32 registers sum
#else
inline constexpr int kBlockRows = 4, kBlockVectors = 2;  // 8 of 16
#endif

/// What becomes of a finished product: value(where it goes, row, product).
template <class Real>
struct Overwrite {
  Real factor;
  Vector<Real> value(const Real*, int64_t, Vector<Real> product) const { return factor * product; }
};
template <class Real>
struct AddTo {
  Vector<Real> value(const Real* to, int64_t, Vector<Real> product) const { return load(to) + product; }
};
template <class Real>
struct ScaleAndAdd {
  const Real* factors;  // of every row
  Vector<Real> value(const Real* to, int64_t row, Vector<Real> product) const { return factors[row] * load(to) + product; }
};

/// Rows [first, first + kRows) and kVectors vectors of columns.
template <int kRows, int kVectors, class Real, class Result>
void multiply_block(int64_t first, int64_t depth, const Result& result, Matrix<Real> a, const Real* b, int64_t b_row, Real* c, int64_t c_row) {
  Vector<Real> sum[kRows][kVectors] = {};
  const Real* left_of = a.data + first * a.row;
  for (int64_t k = 0; k < depth; ++k, left_of += a.column, b += b_row) {
    Vector<Real> right[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) right[v] = load(b + v * kLanes<Real>);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Real left = left_of[i * a.row];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[i][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Real* to = c + (first + i) * c_row + v * kLanes<Real>;
      store<Real>(to, result.value(to, first + i, sum[i][v]));
    }
}

template <int kRows, class Real, class Result>
void multiply_rows(int64_t first, int64_t columns, int64_t depth, const Result& result, Matrix<Real> a, Panel<const Real> b, Panel<Real> c) {
  constexpr int64_t kWide = kBlockVectors * kLanes<Real>;
  int64_t j = 0;
  for (; j + kWide <= columns; j += kWide) multiply_block<kRows, kBlockVectors>(first, depth, result, a, b.data + j, b.row, c.data + j, c.row);
  for (; j < columns; j += kLanes<Real>) multiply_block<kRows, 1>(first, depth, result, a, b.data + j, b.row, c.data + j, c.row);
}

template <class Real, class Result>
void multiply_any(int64_t rows, int64_t columns, int64_t depth, const Result& result, Matrix<Real> a, Panel<const Real> b, Panel<Real> c) {
  int64_t first = 0;
  for (; first + kBlockRows <= rows; first += kBlockRows) multiply_rows<kBlockRows>(first, columns, depth, result, a, b, c);
  [&]<int... kLeft>(std::integer_sequence<int, kLeft...>) {
    ((rows - first == kLeft + 1 ? multiply_rows<kLeft + 1>(first, columns, depth, result, a, b, c) : void()), ...);
  }(std::make_integer_sequence<int, kBlockRows - 1>());
}

/// C = factor · A B, with A rows × depth, B depth × columns; columns a multiple of kLanes.
template <class Real>
void multiply(int64_t rows, int64_t columns, int64_t depth, Real factor, Matrix<Real> a, Panel<const Real> b, Panel<Real> c) {
  multiply_any(rows, columns, depth, Overwrite<Real>{factor}, a, b, c);
}

/// C += A B.
template <class Real>
void multiply_add(int64_t rows, int64_t columns, int64_t depth, Matrix<Real> a, Panel<const Real> b, Panel<Real> c) {
  multiply_any(rows, columns, depth, AddTo<Real>{}, a, b, c);
}

/// C = Diag(factors) C + A B.
template <class Real>
void multiply_scale_add(int64_t rows, int64_t columns, int64_t depth, const Real* factors, Matrix<Real> a, Panel<const Real> b, Panel<Real> c) {
  multiply_any(rows, columns, depth, ScaleAndAdd<Real>{factors}, a, b, c);
}

}  // namespace megatoken::cpu
