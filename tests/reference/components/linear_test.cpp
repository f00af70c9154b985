#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::relative_rms;

const Variant& cpu() { return find_variant("linear", "cpu"); }

TEST(Linear, TheIdentityReturnsTheInputPlusBias) {
  Problem p = filled("linear", "b=2 t=3 c=4 o=4 bias=1");
  for (int64_t i = 0; i < 16; ++i) set_value(p["w"], i, i / 4 == i % 4);
  run_variant(cpu(), p, Phase::Both);
  for (int64_t i = 0; i < 24; ++i) EXPECT_DOUBLE_EQ(value_at(p["y"], i), value_at(p["x"], i) + value_at(p["bias"], i % 4));
  EXPECT_EQ(relative_rms(p["dx"], p["dy"]), 0);
}

TEST(Linear, IntegerSumsAreExactAtEveryPrecision) {
  const Problem want = [] { Problem p = filled("linear", "b=2 t=9 c=17 o=5 bias=1", DType::F64, "exact"); run_variant(cpu(), p, Phase::Both); return p; }();
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    Problem p = filled("linear", "b=2 t=9 c=17 o=5 bias=1", dtype, "exact");
    run_variant(cpu(), p, Phase::Both);
    EXPECT_EQ(test::worst_difference(p, want), 0) << to_string(dtype);
  }
}

TEST(Linear, SumsInTheAccumulatorNotInTheInputsDtype) {
  Problem p = filled("linear", "t=1 c=4096 o=1", DType::BF16);
  fill(p["x"], 1), fill(p["w"], 1);
  run_variant(cpu(), p, Phase::Forward);
  EXPECT_EQ(value_at(p["y"], 0), 4096) << "a bf16 sum of ones stops at 256";
}

}  // namespace
}  // namespace megatoken
