// Turned matrices against two loops; everything around the target stays as it was.
#include "optimized/cpu/transpose.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace megatoken::cpu {
namespace {

template <class Real>
void expect_turned(int64_t rows, int64_t columns) {
  const int64_t from_row = columns + 3, to_row = rows + 5;
  std::vector<Real> from(static_cast<size_t>(rows * from_row)), to(static_cast<size_t>(columns * to_row), Real{-1});
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<Real>(i);
  transpose(rows, columns, from.data(), from_row, to.data(), to_row);
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < to_row; ++i)
      ASSERT_EQ(to[static_cast<size_t>(j * to_row + i)], i < rows ? from[static_cast<size_t>(i * from_row + j)] : Real{-1}) << rows << "×" << columns << " at " << j << ", " << i;
}

TEST(Transpose, TurnsEveryTile) {
  for (int64_t rows = 1; rows <= 3; ++rows)
    for (int64_t columns = 1; columns <= 3; ++columns) {
      expect_turned<float>(rows * kLanes<float>, columns * kLanes<float>);
      expect_turned<double>(rows * kLanes<double>, columns * kLanes<double>);
    }
}

}  // namespace
}  // namespace megatoken::cpu
