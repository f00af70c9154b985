// The merge of partial attention: exact weights, far apart sums, rows without keys.
#include "optimized/schemes/ring/merge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/compare.hpp"

namespace megatoken::ring {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

struct Partial {
  Tensor o, lse;

  Partial(DType dtype, double value, double lse_value) : o(dtype, {1, 1, 1, 2}), lse(dtype, {1, 1, 1}) {
    fill(o, value);
    fill(lse, lse_value);
  }
  double value() const { return value_at(o, 1); }
  double log_sum() const { return value_at(lse, 0); }
};

Partial merged(DType dtype, double o, double lse, double more_o, double more_lse) {
  Partial sum(dtype, o, lse);
  const Partial more(dtype, more_o, more_lse);
  merge(sum.o, sum.lse, more.o, more.lse, 1);
  return sum;
}

TEST(Merge, OfEqualSumsIsTheMean) {
  const Partial m = merged(DType::F64, 1, 2, 3, 2);
  EXPECT_DOUBLE_EQ(m.value(), 2);
  EXPECT_DOUBLE_EQ(m.log_sum(), 2 + std::log(2.0));
}

TEST(Merge, WeighsByNaturalLogarithms) {
  const Partial m = merged(DType::F64, 1, std::log(1.0), 5, std::log(3.0));
  EXPECT_DOUBLE_EQ(m.value(), (1 + 3 * 5) / 4.0);
  EXPECT_DOUBLE_EQ(m.log_sum(), std::log(4.0));
}

TEST(Merge, OfSumsTenThousandApartIsTheLargerToTheBit) {
  for (DType dtype : {DType::F32, DType::F64})
    for (double far : {1e4, -1e4, 89.0 * 3, 3e38}) {
      const Partial m = merged(dtype, 0.3, far, 0.7, 0), n = merged(dtype, 0.3, 0, 0.7, far);
      EXPECT_EQ(m.value(), value_at(Partial(dtype, far > 0 ? 0.3 : 0.7, 0).o, 0)) << far;
      EXPECT_EQ(n.value(), value_at(Partial(dtype, far > 0 ? 0.7 : 0.3, 0).o, 0)) << far;
      EXPECT_EQ(m.log_sum(), n.log_sum());
      EXPECT_EQ(m.log_sum(), value_at(Partial(dtype, 0, std::max(far, 0.0)).lse, 0));
    }
}

TEST(Merge, OfLargeEqualSumsStaysFinite) {
  for (double large : {1e4, -1e4}) EXPECT_NEAR(merged(DType::F32, 1, large, 2, large).value(), 1.5, 1e-6);
}

TEST(Merge, KeepsRowsWithoutKeysAndTakesTheOtherSide) {
  for (DType dtype : {DType::F32, DType::F64}) {
    const Partial none = merged(dtype, 0, kNone, 0, kNone), first = merged(dtype, 0, kNone, 0.5, 3), second = merged(dtype, 0.5, 3, 0, kNone);
    EXPECT_EQ(none.value(), 0);
    EXPECT_EQ(none.log_sum(), kNone);
    EXPECT_EQ(first.value(), 0.5);
    EXPECT_EQ(first.log_sum(), 3);
    EXPECT_EQ(second.value(), 0.5);
    EXPECT_EQ(second.log_sum(), 3);
  }
}

TEST(Merge, DoesNotHideNaN) {
  EXPECT_TRUE(std::isnan(merged(DType::F32, 1, 2, std::nan(""), 2).value()));
  EXPECT_TRUE(std::isnan(merged(DType::F32, 1, 2, 3, std::nan("")).value()));
}

TEST(Merge, OfManyBlocksDoesNotDependOnTheirOrder) {
  Partial up(DType::F64, 0, kNone), down(DType::F64, 0, kNone);
  double weights = 0, sum = 0;
  for (int i = 0; i < 32; ++i) {
    const Partial block(DType::F64, i, 3 * std::sin(i));
    merge(up.o, up.lse, block.o, block.lse, 1);
    weights += std::exp(3 * std::sin(i));
    sum += i * std::exp(3 * std::sin(i));
  }
  for (int i = 31; i >= 0; --i) {
    const Partial block(DType::F64, i, 3 * std::sin(i));
    merge(down.o, down.lse, block.o, block.lse, 1);
  }
  EXPECT_NEAR(up.value(), sum / weights, 1e-13 * sum / weights);
  EXPECT_NEAR(up.value(), down.value(), 1e-13 * sum / weights);
  EXPECT_NEAR(up.log_sum(), std::log(weights), 1e-14);
}

TEST(Merge, WorksOnSlicesOfRowsWithAnyNumberOfThreads) {
  const Tensor o = Tensor::zeros(DType::F64, {2, 6, 3, 2}), lse(DType::F64, {2, 3, 6}), more_o(DType::F64, {2, 6, 3, 2}), more_lse = Tensor::zeros(DType::F64, {2, 3, 6});
  fill(lse, kNone);
  for (int64_t i = 0; i < more_o->size(); ++i) set_value(more_o, i, static_cast<double>(i));
  merge(o->slice(1, 2, 5), lse->slice(2, 2, 5), more_o->slice(1, 2, 5), more_lse->slice(2, 2, 5), 3);
  for (int64_t i = 0; i < o->size(); ++i) {
    const int64_t row = i / 6 % 6;
    EXPECT_EQ(value_at(o, i), row >= 2 && row < 5 ? static_cast<double>(i) : 0);
  }
  add(o->slice(1, 0, 3), more_o->slice(1, 0, 3), 3);
  for (int64_t i = 0; i < o->size(); ++i) {
    const int64_t row = i / 6 % 6;
    EXPECT_EQ(value_at(o, i), (row == 2 ? 2 : row < 5 ? 1 : 0) * static_cast<double>(i));
  }
}

TEST(Merge, RefusesNarrowSumsAndOtherShapes) {
  const Partial narrow(DType::BF16, 1, 1), wide(DType::F32, 1, 1);
  EXPECT_NE(test::message_of([&] { merge(narrow.o, narrow.lse, narrow.o, narrow.lse, 1); }).find("fp32 or fp64, not in bf16"), std::string::npos);
  const Tensor other(DType::F32, {1, 1, 1, 3});
  EXPECT_NE(test::message_of([&] { merge(wide.o, wide.lse, other, wide.lse, 1); }).find("[1, 1, 1, 3]"), std::string::npos);
}

}  // namespace
}  // namespace megatoken::ring
