// The inputs that broke public kernels of the delta rule, for every kda variant: nearly equal keys with almost no decay (vllm-FlashKDA #10,
// FlashKDA #34, cudnn-frontend #1051, #1124, tt-metal #54813), gates from saturated to −1000 (cudnn-frontend #1017, TIRx #214, flashinfer
// #5032, transformers #48455), and tails of every length (cuLA #38).
#include "tests/gate.hpp"
#include "tests/variants/every_variant.hpp"

namespace megatoken::test {
namespace {

class EveryDeltaRule : public testing::TestWithParam<const Variant*> {};

void expect_as_good_as_the_recurrence(const Variant& variant, const Problem& got, const std::string& what) {
  expect_within_gate(variant, find_variant("kda", "cpu"), got, what);
}

TEST_P(EveryDeltaRule, StaysExactForEqualKeysAndSlowDecay) {
  for (const double gate : {0.0, -1e-4})
    for (const double noise : {0.0, 1e-3}) {
      Problem p = filled("kda", "b=1 t=512 h=1 d=32 gate=0 beta=0", DType::F32);
      fill(p["g"], gate), fill(p["beta"], 0.999);
      const Tensor random = clone(p["k"]);
      for (int64_t i = 0; i < random->size(); ++i) set_value(p["k"], i, value_at(random, i % 32) + noise * value_at(random, i));
      expect_as_good_as_the_recurrence(*GetParam(), p, format("gate {} noise {}", gate, noise));
    }
}

TEST_P(EveryDeltaRule, KeepsItsDigitsUnderGatesFromSaturatedToMinusOneThousand) {
  for (const double gate : {-2.5, -5.0, -5.9, -11.1, -30.0, -87.0, -1000.0}) {
    Problem p = filled("kda", "b=1 t=200 h=1 d=16 gate=0 carry=1", DType::F32);
    for (int64_t i = 0; i < p["g"].size(); ++i) set_value(p["g"], i, gate * (1 - 1e-3 * static_cast<double>(i % 7)));
    expect_as_good_as_the_recurrence(*GetParam(), p, format("all gates {}", gate));
    for (int64_t i = 0; i < p["g"].size(); ++i) set_value(p["g"], i, i % 16 % 3 == 0 || i / 16 % 11 == 0 ? gate : -1e-3);
    expect_as_good_as_the_recurrence(*GetParam(), p, format("gates {} among weak ones", gate));
  }
}

TEST_P(EveryDeltaRule, LeavesTheRightStateBehindEveryTailFrom1To63) {
  for (int64_t tail = 1; tail < 64; ++tail)
    expect_as_good_as_the_recurrence(*GetParam(), filled("kda", format("b=1 t={} h=1 d=8 dv=4 carry=1", 64 + tail), DType::F64, "aimed"), format("a tail of {}", tail));
}

INSTANTIATE_TEST_SUITE_P(Variants, EveryDeltaRule, testing::ValuesIn(cpu_variants([](const Variant& v) { return v.component == "kda" && v.name != "cpu"; })), variant_name);

}  // namespace
}  // namespace megatoken::test
