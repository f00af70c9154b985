// Register-blocked products against three loops, over every remainder of rows and columns and any strides.
#include "optimized/cpu/matmul.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "reference/core/random.hpp"

namespace megatoken::cpu {
namespace {

template <class Real>
void expect_products(int64_t rows, int64_t columns, int64_t depth, bool turned) {
  const RandomStream random(1, "matmul");
  const int64_t a_row = turned ? 1 : depth + 3, a_column = turned ? rows + 2 : 1, b_row = columns + kLanes<Real>, c_row = columns + 5;
  std::vector<Real> a(static_cast<size_t>((rows + 2) * (depth + 3))), b(static_cast<size_t>(depth * b_row + kLanes<Real>)), c(static_cast<size_t>(rows * c_row)), before;
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<Real>(random.integer(static_cast<int64_t>(i), 9) - 4);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<Real>(random.integer(static_cast<int64_t>(i) + 100000, 9) - 4);
  for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<Real>(i % 7);
  before = c;
  const auto want = [&](int64_t i, int64_t j) {
    Real sum = 0;
    for (int64_t k = 0; k < depth; ++k) sum += a[static_cast<size_t>(i * a_row + k * a_column)] * b[static_cast<size_t>(k * b_row + j)];
    return sum;
  };
  const auto expect = [&](Real factor, bool add) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < c_row; ++j) {
        const auto at = static_cast<size_t>(i * c_row + j);
        const Real wanted = j >= columns ? before[at] : add ? before[at] + want(i, j) : factor * want(i, j);
        ASSERT_EQ(c[at], wanted) << rows << "×" << columns << "×" << depth << (turned ? " turned" : "") << " at " << i << ", " << j;
      }
  };
  multiply_add<Real>(rows, columns, depth, {a.data(), a_row, a_column}, {b.data(), b_row}, {c.data(), c_row});
  expect(1, true);
  multiply<Real>(rows, columns, depth, Real{0.5}, {a.data(), a_row, a_column}, {b.data(), b_row}, {c.data(), c_row});
  expect(Real{0.5}, false);
}

TEST(Multiply, IsExactOnSmallIntegersForEveryRemainder) {
  for (int64_t rows = 1; rows <= 2 * kBlockRows + 1; ++rows)
    for (int64_t vectors = 1; vectors <= 2 * kBlockVectors + 1; ++vectors)
      for (int64_t depth : {0, 1, 2, 33})
        for (bool turned : {false, true}) {
          expect_products<float>(rows, vectors * kLanes<float>, depth, turned);
          expect_products<double>(rows, vectors * kLanes<double>, depth, turned);
        }
}

TEST(Multiply, TouchesNothingWithoutRows) {
  float c = 7;
  multiply<float>(0, kLanes<float>, 3, 1, {nullptr, 3, 1}, {nullptr, kLanes<float>}, {&c, kLanes<float>});
  EXPECT_EQ(c, 7);
}

}  // namespace
}  // namespace megatoken::cpu
