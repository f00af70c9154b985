#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::relative_rms;

const Variant& norm() { return find_variant("rms_norm", "cpu"); }
const Variant& gated() { return find_variant("gated_rms_norm", "cpu"); }

TEST(RmsNorm, RowsHaveUnitRootMeanSquareBeforeTheWeight) {
  Problem p = filled("rms_norm", "b=2 t=4 c=50");
  fill(p["w"], 1);
  run_variant(norm(), p, Phase::Forward);
  for (int64_t row = 0; row < 8; ++row) {
    double sum = 0;
    for (int64_t j = 0; j < 50; ++j) sum += std::pow(value_at(p["y"], row * 50 + j), 2);
    EXPECT_NEAR(sum / 50, 1, 1e-4);
  }
}

TEST(RmsNorm, EpsIsAddedToTheMeanInsideTheRoot) {
  Problem p = filled("rms_norm", "t=1 c=2 eps=0.5");
  set_value(p["x"], 0, 1), set_value(p["x"], 1, 0);
  fill(p["w"], 1);
  run_variant(norm(), p, Phase::Forward);
  EXPECT_DOUBLE_EQ(value_at(p["y"], 0), 1 / std::sqrt(0.5 + 0.5));
}

TEST(RmsNorm, GradientIsOrthogonalToTheRowWithoutEps) {
  Problem p = filled("rms_norm", "t=6 c=9 eps=0");
  run_variant(norm(), p, Phase::Both);
  for (int64_t row = 0; row < 6; ++row) {
    double dot = 0;
    for (int64_t j = 0; j < 9; ++j) dot += value_at(p["x"], row * 9 + j) * value_at(p["dx"], row * 9 + j);
    EXPECT_NEAR(dot, 0, 1e-13);
  }
}

TEST(RmsNorm, RoundsTheNormalisedRowBeforeTheWeight) {
  Problem p = filled("rms_norm", "t=3 c=33", DType::BF16);
  run_variant(norm(), p, Phase::Forward);
  for (int64_t i = 0; i < 99; ++i) {
    float sum = 0;
    for (int64_t j = i / 33 * 33; j < i / 33 * 33 + 33; ++j) sum += static_cast<float>(value_at(p["x"], j) * value_at(p["x"], j));
    const float r = 1 / std::sqrt(sum / 33 + 1e-5f);
    const float hat = static_cast<float>(BFloat16(static_cast<float>(value_at(p["x"], i)) * r));
    EXPECT_EQ(value_at(p["y"], i), static_cast<double>(BFloat16(static_cast<float>(value_at(p["w"], i % 33)) * hat)));
  }
}

TEST(GatedRmsNorm, AnOpenGateGivesRmsNormAndAClosedOneGivesZero) {
  Problem g = filled("gated_rms_norm", "b=1 t=5 h=2 d=8"), n = filled("rms_norm", "b=1 t=10 c=8");
  copy(g["x"].reshape({1, 10, 8}), n["x"]);
  copy(g["w"], n["w"]);
  run_variant(norm(), n, Phase::Forward);
  fill(g["gate"], 50);
  run_variant(gated(), g, Phase::Forward);
  EXPECT_LE(relative_rms(g["y"].reshape({1, 10, 8}), n["y"]), 1e-15);
  fill(g["gate"], -800);
  run_variant(gated(), g, Phase::Both);
  for (int64_t i = 0; i < 80; ++i) EXPECT_EQ(value_at(g["y"], i), 0) << "also: no NaN from exp(800)";
  for (int64_t i = 0; i < 80; ++i) EXPECT_EQ(value_at(g["dgate"], i), 0);
}

}  // namespace
}  // namespace megatoken
