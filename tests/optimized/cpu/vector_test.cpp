// The vector exponential against the double one, over every exponent and the borders of its range.
#include "optimized/cpu/vector.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace megatoken::cpu {
namespace {

float exp_of(float x) { return exp(all(x))[kLanes<float> - 1]; }

TEST(VectorExp, IsWithinOneInTenMillion) {
  double worst = 0;
  for (double x = -87.33; x <= 88.72; x += 1.7e-4) {
    Vector<float> lanes{};
    for (int i = 0; i < kLanes<float>; ++i) lanes[i] = static_cast<float>(x += 1.3e-5);
    const Vector<float> got = exp(lanes);
    for (int i = 0; i < kLanes<float>; ++i) {
      const double want = std::exp(static_cast<double>(lanes[i]));
      if (want < std::numeric_limits<float>::max() && lanes[i] >= -87.33f) worst = std::max(worst, std::abs(static_cast<double>(got[i]) / want - 1));
    }
  }
  EXPECT_LT(worst, 1e-7);
  EXPECT_GT(worst, 3e-8) << "better than the format allows: nothing was compared";
}

TEST(VectorExp, IsExactWhereSoftmaxNeedsIt) {
  EXPECT_EQ(exp_of(0.0f), 1.0f);
  EXPECT_EQ(exp_of(-0.0f), 1.0f);
  EXPECT_EQ(exp_of(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(exp_of(-800.0f), 0.0f);
  EXPECT_EQ(exp_of(-std::numeric_limits<float>::max()), 0.0f);
}

TEST(VectorExp, OverflowsToInfinityAndKeepsNaN) {
  EXPECT_TRUE(std::isinf(exp_of(88.8f)));
  EXPECT_TRUE(std::isinf(exp_of(1e30f)));
  EXPECT_TRUE(std::isinf(exp_of(std::numeric_limits<float>::infinity())));
  for (uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0xffffffffu, 0x7f800001u, 0x7fc001ffu}) {
    float nan;
    std::memcpy(&nan, &bits, sizeof nan);
    EXPECT_TRUE(std::isnan(exp_of(nan))) << bits;
  }
}

TEST(VectorExp, OfDoublesIsTheLibrarys) { EXPECT_EQ(exp(all(1.25))[0], std::exp(1.25)); }

TEST(Vectors, AnyLooksAtEveryLane) {
  for (int i = 0; i < kLanes<int32_t>; ++i) {
    Vector<int32_t> mask{};
    EXPECT_FALSE(any<int32_t>(mask));
    mask[i] = -1;
    EXPECT_TRUE(any<int32_t>(mask)) << i;
  }
}

}  // namespace
}  // namespace megatoken::cpu
