#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;

const Variant& cpu() { return find_variant("index_kl", "cpu"); }

TEST(IndexKl, RowsWithoutPoolsAndWithOneGiveExactlyZero) {
  for (const char* distribution : {"normal", "extreme"}) {
    Problem p = filled("index_kl", "t=12 h=3 topk=5", DType::F32, distribution);
    run_variant(cpu(), p, Phase::Both);
    for (int64_t i = 0; i < 8; ++i) {  // rows of 0 and 1 pools
      EXPECT_EQ(value_at(p["loss"], i), 0) << distribution << " " << i;
      for (int64_t j = 0; j < 5; ++j) EXPECT_EQ(value_at(p["dscore"], i * 5 + j), 0);
    }
    EXPECT_GT(value_at(p["loss"], 11), 0);
  }
}

TEST(IndexKl, ScoresThatEqualTheLogOfTheTargetHaveNoLossAndNoGradient) {
  Problem p = filled("index_kl", "t=20 h=2 topk=4 pool=2");
  const auto logit = p["logit"].elements<double, 4>();
  const auto lse = p["lse"].elements<double, 3>(), score = p["score"].elements<double, 3>();
  for (int64_t i = 0; i < 20; ++i)
    for (int64_t k = 0; k < 4; ++k) {
      double mass = 0;
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t m = 2 * k; m < 2 * k + 2; ++m) mass += std::exp(logit(0, i, h, m) - lse(0, h, i));
      score(0, i, k) = std::log(mass) + 3;  // any constant
    }
  run_variant(cpu(), p, Phase::Both);
  for (int64_t i = 0; i < 20; ++i) EXPECT_NEAR(value_at(p["loss"], i), 0, 1e-14);
  for (int64_t i = 0; i < 80; ++i) EXPECT_NEAR(value_at(p["dscore"], i), 0, 1e-14);
}

TEST(IndexKl, TargetIsTheConditionalOfTheJointSoftmax) {  // Megatron #5776: heads that look elsewhere count less
  Problem p = filled("index_kl", "t=3 h=2 topk=2 pool=1");
  const auto logit = p["logit"].elements<double, 4>();
  logit(0, 2, 0, 0) = std::log(0.5), logit(0, 2, 0, 1) = std::log(0.25);     // head 0: half, a quarter, a quarter in the tail
  logit(0, 2, 1, 0) = std::log(0.001), logit(0, 2, 1, 1) = std::log(0.003);  // head 1: nearly all in the tail
  for (int64_t h = 0; h < 2; ++h) p["lse"].elements<double, 3>()(0, h, 2) = 0;
  fill(p["score"], 0), fill(p["dloss"], 1);
  run_variant(cpu(), p, Phase::Both);
  const double target = 0.501 / 0.754;
  EXPECT_NEAR(value_at(p["dscore"], 4), 0.5 - target, 1e-15);
  EXPECT_NEAR(value_at(p["dscore"], 5), target - 0.5, 1e-15);
  EXPECT_NEAR(value_at(p["loss"], 2), target * std::log(2 * target) + (1 - target) * std::log(2 * (1 - target)), 1e-15);
}

TEST(IndexKl, GradientsOfARowSumToZeroAndFollowUpstreamAndCoefficient) {
  Problem p = filled("index_kl", "b=2 t=30 h=2 topk=5");
  run_variant(cpu(), p, Phase::Both);
  for (double upstream : {0.5, -1.0, 0.0}) {
    Problem scaled = test::with_inputs_of(p, "b=2 t=30 h=2 topk=5 coefficient=0.25");
    for (int64_t i = 0; i < 60; ++i) set_value(scaled["dloss"], i, upstream * value_at(p["dloss"], i));
    run_variant(cpu(), scaled, Phase::Both);
    for (int64_t i = 0; i < 300; ++i) EXPECT_NEAR(value_at(scaled["dscore"], i), 0.25 * upstream * value_at(p["dscore"], i), 1e-16);
  }
  for (int64_t row = 0; row < 60; ++row) {
    double sum = 0;
    for (int64_t j = 0; j < 5; ++j) sum += value_at(p["dscore"], row * 5 + j);
    EXPECT_NEAR(sum, 0, 1e-14);
  }
}

TEST(IndexKl, PoolsWithoutMassAndMassBelowEveryNumberStayFinite) {  // cudnn-frontend #297: 0 ln 0
  Problem p = filled("index_kl", "t=9 h=2 topk=2", DType::F32);
  const auto logit = p["logit"].elements<float, 4>();
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t m = 0; m < 4; ++m) logit(0, 8, h, m) = -1e5f;                 // the first pool has no mass at all
  for (int64_t h = 0; h < 2; ++h) p["lse"].elements<float, 3>()(0, h, 8) = 900;  // the second one e^-900
  run_variant(cpu(), p, Phase::Both);
  const double q0 = 1 / (1 + std::exp(value_at(p["score"], 17) - value_at(p["score"], 16)));
  EXPECT_NEAR(value_at(p["loss"], 8), -std::log(1 - q0), 1e-5);
  EXPECT_NEAR(value_at(p["dscore"], 16), value_at(p["dloss"], 8) * q0, 1e-6);
}

TEST(IndexKl, RefusesCountsBeyondTheSlots) {
  Problem p = filled("index_kl", "t=3 h=1 topk=2");
  p["count"].as<int32_t>()[1] = 3;
  EXPECT_NE(test::message_of([&] { run_variant(cpu(), p, Phase::Forward); }).find("count of query 1 in batch row 0 is 3, expected 0 to topk=2"), std::string::npos);
}

}  // namespace
}  // namespace megatoken
