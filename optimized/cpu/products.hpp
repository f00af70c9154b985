// Large dense products through Eigen, as maps over memory that somebody else owns: row-major, rows `stride` numbers apart. Eigen works on
// one thread here and packs blocks of its operands into buffers of a few hundred kilobytes, whatever the sizes.
#pragma once
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own AVX-512 intrinsics, inlined into Eigen (its bug 105593)
#include <Eigen/Core>
#pragma GCC diagnostic pop

#include "reference/core/tensor.hpp"

namespace megatoken::cpu {

template <class Real>
using Grid = Eigen::Map<Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class Real>
using ConstGrid = Eigen::Map<const Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class Real>
Grid<Real> grid(Real* data, int64_t rows, int64_t columns, int64_t stride) { return {data, rows, columns, Eigen::OuterStride<>(stride)}; }
template <class Real>
Grid<Real> grid(Real* data, int64_t rows, int64_t columns) { return grid(data, rows, columns, columns); }
template <class Real>
ConstGrid<Real> const_grid(const Real* data, int64_t rows, int64_t columns, int64_t stride) { return {data, rows, columns, Eigen::OuterStride<>(stride)}; }
template <class Real>
ConstGrid<Real> const_grid(const Real* data, int64_t rows, int64_t columns) { return const_grid(data, rows, columns, columns); }

/// The last two axes of a contiguous-rowed result, seen as a matrix; refuses views whose last axis is strided.
template <class Real>
Grid<Real> result_grid(const TensorView& view, const char* name) {
  const int last = view.shape.rank() - 1;
  MEGATOKEN_CHECK(view.shape[last] <= 1 || view.strides[last] == 1, "{} has stride {} along its last axis, expected 1", name, view.strides[last]);
  return grid(view.as<Real>(), view.shape[last - 1], view.shape[last], view.strides[last - 1]);
}

}  // namespace megatoken::cpu
