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

template <bool kAdd, int kRows, int kVectors, class Real>
void multiply_block(int64_t depth, Real factor, Matrix<Real> a, const Real* b, int64_t b_row, Real* c, int64_t c_row) {
  Vector<Real> sum[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k, a.data += a.column, b += b_row) {
    Vector<Real> right[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) right[v] = load(b + v * kLanes<Real>);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Real left = a.data[i * a.row];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[i][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Real* to = c + i * c_row + v * kLanes<Real>;
      store<Real>(to, kAdd ? load(to) + sum[i][v] : factor * sum[i][v]);
    }
}

template <bool kAdd, int kRows, class Real>
void multiply_rows(int64_t columns, int64_t depth, Real factor, Matrix<Real> a, Panel<const Real> b, Panel<Real> c) {
  constexpr int64_t kWide = kBlockVectors * kLanes<Real>;
  int64_t j = 0;
  for (; j + kWide <= columns; j += kWide) multiply_block<kAdd, kRows, kBlockVectors>(depth, factor, a, b.data + j, b.row, c.data + j, c.row);
  for (; j < columns; j += kLanes<Real>) multiply_block<kAdd, kRows, 1>(depth, factor, a, b.data + j, b.row, c.data + j, c.row);
}

template <bool kAdd, class Real>
void multiply_any(int64_t rows, int64_t columns, int64_t depth, Real factor, Matrix<Real> a, Panel<const Real> b, Panel<Real> c) {
  for (; rows >= kBlockRows; rows -= kBlockRows, a.data += kBlockRows * a.row, c.data += kBlockRows * c.row)
    multiply_rows<kAdd, kBlockRows>(columns, depth, factor, a, b, c);
  [&]<int... kLeft>(std::integer_sequence<int, kLeft...>) {
    ((rows == kLeft + 1 ? multiply_rows<kAdd, kLeft + 1>(columns, depth, factor, a, b, c) : void()), ...);
  }(std::make_integer_sequence<int, kBlockRows - 1>());
}

/// C = factor · A B, with A rows × depth, B depth × columns; columns a multiple of kLanes.
template <class Real>
void multiply(int64_t rows, int64_t columns, int64_t depth, Real factor, Matrix<Real> a, Panel<const Real> b, Panel<Real> c) {
  multiply_any<false>(rows, columns, depth, factor, a, b, c);
}

/// C += A B.
template <class Real>
void multiply_add(int64_t rows, int64_t columns, int64_t depth, Matrix<Real> a, Panel<const Real> b, Panel<Real> c) {
  multiply_any<true>(rows, columns, depth, Real{1}, a, b, c);
}

}  // namespace megatoken::cpu
