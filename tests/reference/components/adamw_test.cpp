#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::relative_rms;

const Variant& cpu() { return find_variant("adamw", "cpu"); }

TEST(AdamW, TheFirstStepMovesEveryWeightByTheLearningRate) {
  Problem p = filled("adamw", "n=5 step=1 eps=0 decay=0 clip=0 lr=0.25");
  fill(p["m"], 0), fill(p["v"], 0);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_NEAR(value_at(p["master_out"], i), value_at(p["master"], i) - (value_at(p["grad"], i) > 0 ? 0.25 : -0.25), 1e-14);
}

TEST(AdamW, DecayIsDecoupledFromTheMoments) {
  Problem p = filled("adamw", "n=4 decay=0.5 lr=0.1 clip=0");
  fill(p["grad"], 0), fill(p["m"], 0);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(value_at(p["master_out"], i), value_at(p["master"], i) * (1 - 0.05));
    EXPECT_EQ(value_at(p["m_out"], i), 0);
  }
}

TEST(AdamW, ClippingEqualsAScaledGradientAndReportsTheNormBefore) {
  Problem clipped = filled("adamw", "n=40 clip=1"), scaled = filled("adamw", "n=40 clip=0");
  double norm = 0;
  for (int64_t i = 0; i < 40; ++i) norm += std::pow(value_at(clipped["grad"], i), 2);
  norm = std::sqrt(norm);
  ASSERT_GT(norm, 1);
  for (int64_t i = 0; i < 40; ++i) set_value(scaled["grad"], i, value_at(scaled["grad"], i) / (norm + 1e-6));
  run_variant(cpu(), clipped, Phase::Forward), run_variant(cpu(), scaled, Phase::Forward);
  EXPECT_DOUBLE_EQ(value_at(clipped["norm"], 0), norm);
  for (const char* name : {"master_out", "m_out", "v_out"}) EXPECT_LE(relative_rms(clipped[name], scaled[name]), 1e-14) << name;
}

TEST(AdamW, SmallGradientsAreNotScaledUp) {
  Problem p = filled("adamw", "n=3 clip=100"), free = filled("adamw", "n=3 clip=0");
  run_variant(cpu(), p, Phase::Forward), run_variant(cpu(), free, Phase::Forward);
  EXPECT_EQ(relative_rms(p["master_out"], free["master_out"]), 0);
}

TEST(AdamW, MasterWeightsKeepWhatBf16WouldLose) {
  Problem p = filled("adamw", "n=1 step=1 lr=1e-4 decay=0 clip=0", DType::BF16);
  set_value(p["master"], 0, 1), set_value(p["grad"], 0, 1), fill(p["m"], 0), fill(p["v"], 0);
  run_variant(cpu(), p, Phase::Forward);
  EXPECT_LT(value_at(p["master_out"], 0), 1);
  EXPECT_EQ(value_at(p["weight_out"], 0), 1);
}

}  // namespace
}  // namespace megatoken
