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
  /// c = keep(row) · before + factor · product
  const auto expect = [&](Real factor, const auto& keep) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < c_row; ++j) {
        const auto at = static_cast<size_t>(i * c_row + j);
        ASSERT_EQ(c[at], j >= columns ? before[at] : keep(i) * before[at] + factor * want(i, j)) << rows << "×" << columns << "×" << depth << (turned ? " turned" : "") << " at " << i << ", " << j;
      }
  };
  multiply_add<Real>(rows, columns, depth, {a.data(), a_row, a_column}, {b.data(), b_row}, {c.data(), c_row});
  expect(1, [](int64_t) { return Real{1}; });

  std::vector<Real> factors;
  for (int64_t i = 0; i < rows; ++i) factors.push_back(static_cast<Real>(i % 5 - 2));
  c = before;
  multiply_scale_add<Real>(rows, columns, depth, factors.data(), {a.data(), a_row, a_column}, {b.data(), b_row}, {c.data(), c_row});
  expect(1, [&](int64_t i) { return factors[static_cast<size_t>(i)]; });

  multiply<Real>(rows, columns, depth, Real{0.5}, {a.data(), a_row, a_column}, {b.data(), b_row}, {c.data(), c_row});
  expect(Real{0.5}, [](int64_t) { return Real{0}; });
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
