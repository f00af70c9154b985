#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::message_of;
using test::relative_rms;

TEST(Experts, OneExpertIsTheGatedMlp) {
  Problem p = filled("experts", "t=4 c=3 e=1 k=1 f=5 shared=0"), first = filled("linear", "t=4 c=3 o=10"), unit = filled("swiglu", "t=4 c=5"), second = filled("linear", "t=4 c=5 o=3");
  fill(p["weight"], 1), fill(p["id"], 0);
  run_variant(find_variant("experts", "cpu"), p, Phase::Forward);
  copy(p["x"], first["x"]), copy(p["gate_up"].reshape({10, 3}), first["w"]);
  run_variant(find_variant("linear", "cpu"), first, Phase::Forward);
  copy(first["y"].slice(2, 0, 5), unit["gate"]), copy(first["y"].slice(2, 5, 10), unit["up"]);
  run_variant(find_variant("swiglu", "cpu"), unit, Phase::Forward);
  copy(unit["y"], second["x"]), copy(p["down"].reshape({3, 5}), second["w"]);
  run_variant(find_variant("linear", "cpu"), second, Phase::Forward);
  EXPECT_LE(relative_rms(p["y"], second["y"]), 1e-14);
}

// Megatron #1877: a rank whose experts get no token must still give gradients, and they are zero.
TEST(Experts, ExpertsWithoutTokensHaveZeroGradientsAndEmptySlotsAddNothing) {
  Problem p = filled("experts", "t=3 c=2 e=4 k=2 f=2 shared=0");
  for (int64_t i = 0; i < 6; ++i) set_value(p["id"], i, i % 2 ? -1 : 1);
  run_variant(find_variant("experts", "cpu"), p, Phase::Both);
  for (int64_t i = 0; i < p["ddown"].size(); ++i) EXPECT_TRUE(i / 4 == 1 || value_at(p["ddown"], i) == 0) << i;
  for (int64_t i = 1; i < 6; i += 2) EXPECT_EQ(value_at(p["dweight"], i), 0);
  EXPECT_GT(relative_rms(p["y"], Tensor::zeros(DType::F64, p["y"].shape)), 0);
}

TEST(Experts, RefusesIdsOutsideTheRange) {
  Problem p = filled("experts", "t=2 c=2 e=3 k=2 f=2");
  set_value(p["id"], 3, 3);
  EXPECT_EQ(message_of([&] { run_variant(find_variant("experts", "cpu"), p, Phase::Forward); }), "experts: id at token 1, slot 1 is 3, expected -1 (empty) or 0 to 2 (e=3)");
}

}  // namespace
}  // namespace megatoken
