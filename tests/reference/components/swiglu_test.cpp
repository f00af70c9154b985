#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;

double silu(double g) { return g / (1 + std::exp(-g)); }

Problem one(double gate, double up, double limit = 10) {
  Problem p = filled("swiglu", "t=1 c=1 limit=" + std::to_string(limit));
  set_value(p["gate"], 0, gate), set_value(p["up"], 0, up), set_value(p["dy"], 0, 1);
  run_variant(find_variant("swiglu", "cpu"), p, Phase::Both);
  return p;
}

TEST(Swiglu, ClampsTheGateAboveOnlyAndUpOnBothSides) {
  EXPECT_DOUBLE_EQ(value_at(one(12, 3)["y"], 0), silu(10) * 3);
  EXPECT_DOUBLE_EQ(value_at(one(-12, 3)["y"], 0), silu(-12) * 3);
  EXPECT_DOUBLE_EQ(value_at(one(1, 12)["y"], 0), silu(1) * 10);
  EXPECT_DOUBLE_EQ(value_at(one(1, -12)["y"], 0), silu(1) * -10);
  EXPECT_DOUBLE_EQ(value_at(one(12, -12, 0)["y"], 0), silu(12) * -12);
}

TEST(Swiglu, GradientsStopAtTheClampsAndPassOnThem) {
  EXPECT_EQ(value_at(one(12, 3)["dgate"], 0), 0);
  EXPECT_NE(value_at(one(10, 3)["dgate"], 0), 0);
  EXPECT_NE(value_at(one(-12, 3)["dgate"], 0), 0);
  EXPECT_EQ(value_at(one(1, 10.01)["dup"], 0), 0);
  EXPECT_EQ(value_at(one(1, -10.01)["dup"], 0), 0);
  EXPECT_DOUBLE_EQ(value_at(one(1, -10)["dup"], 0), silu(1));
}

TEST(Swiglu, HugeGatesGiveNoNaN) {
  EXPECT_EQ(value_at(one(-1e4, 3, 0)["y"], 0), 0);
  EXPECT_EQ(value_at(one(1e4, 3, 0)["y"], 0), 3e4);
  EXPECT_EQ(value_at(one(-1e4, 3, 0)["dgate"], 0), 0);
}

}  // namespace
}  // namespace megatoken
