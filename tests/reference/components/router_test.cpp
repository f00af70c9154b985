#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::message_of;

TEST(Router, ChoosesByBiasedScoreWeighsByUnbiasedAndBreaksTiesByTheLowerId) {
  Problem p = filled("router", "t=1 c=1 e=5 k=3");
  set_value(p["x"], 0, 1);
  const double logits[] = {0, 1, 1, -3, 0}, bias[] = {0, 0, 0, 2, 0};
  for (int64_t e = 0; e < 5; ++e) set_value(p["w"], e, logits[e]), set_value(p["bias"], e, bias[e]);
  run_variant(find_variant("router", "cpu"), p, Phase::Forward);
  const int want[] = {3, 1, 2};
  double sum = 0;
  for (int64_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(value_at(p["id"], slot), want[slot]);
    sum += 1 / (1 + std::exp(-logits[want[slot]]));
  }
  for (int64_t slot = 0; slot < 3; ++slot) EXPECT_NEAR(value_at(p["weight"], slot), 2.5 / (1 + std::exp(-logits[want[slot]])) / sum, 1e-15);
}

// sglang #37133: 238 different biases near 7 were 8 in bf16, and nearly every token went to other experts. With equal scores the biases alone
// choose, and the largest ones differ by less than a step of bf16.
TEST(Router, BiasesThatDifferLessThanBf16CanTellStillChoose) {
  for (DType dtype : {DType::F64, DType::F32, DType::BF16}) {
    Problem p = filled("router", "t=3 c=4 e=256 k=8", dtype);
    fill(p["x"], 0);
    const auto bias = [](int64_t e) { return 7 + static_cast<double>(e * 83 % 256) / 8192; };
    for (int64_t e = 0; e < 256; ++e) set_value(p["bias"], e, bias(e));
    run_variant(find_variant("router", "cpu"), p, Phase::Forward);
    for (int64_t slot = 0; slot < 24; ++slot) EXPECT_EQ(bias(static_cast<int64_t>(value_at(p["id"], slot))), 7 + static_cast<double>(255 - slot % 8) / 8192) << to_string(dtype);
  }
}

TEST(Router, RefusesMoreChoicesThanExperts) {
  EXPECT_EQ(message_of([] { filled("router", "e=3 k=4"); }), "router: k=4 experts are chosen of e=3; k is at most e");
}

}  // namespace
}  // namespace megatoken
