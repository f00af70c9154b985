// Upstream gradients of 0.5, −1, 0, twice in a row, and of some tokens only, for every backward there is. Public fused losses formed their
// gradients before they knew the upstream one and scaled a part of them, or scaled them twice in place
// (DeepSpeed TiledFusedLogitsLoss, quack PR#209, Liger #968, Megatron #4070).
#include "tests/variants/every_variant.hpp"

namespace megatoken::test {
namespace {

class EveryBackward : public testing::TestWithParam<const Variant*> {};

Tensor scaled(const TensorView& view, double factor) {
  Tensor result = clone(view);
  for (int64_t i = 0; i < result->size(); ++i) set_value(result, i, factor * value_at(result, i));
  return result;
}

Tensor without_signs_of_zeros(const TensorView& view) {
  Tensor result = clone(view);
  for (int64_t i = 0; i < result->size(); ++i)
    if (value_at(result, i) == 0) set_value(result, i, 0);
  return result;
}

// Powers of two and signs change no rounding, so the gradients must be the same numbers, scaled.
TEST_P(EveryBackward, FollowsItsUpstreamGradientAlsoWhenRunTwice) {
  const Variant& variant = *GetParam();
  const Problem one = judging_problem(variant);
  run_variant(variant, one, Phase::Both, 2);
  for (const double factor : {0.5, -1.0, 0.0}) {
    Problem other = one.converted(one.dtype(), true);
    for (const Field& field : one.component().fields)
      if (field.role == Role::OutputGrad && one[field.name]) other.replace(field.name, scaled(one[field.name], factor));
    run_variant(variant, other, Phase::Backward, 2);
    run_variant(variant, other, Phase::Backward, 2);
    for (const Field& field : one.component().fields) {
      if (field.role != Role::InputGrad || !one[field.name]) continue;
      EXPECT_TRUE(same_result(variant, without_signs_of_zeros(other[field.name]), without_signs_of_zeros(scaled(one[field.name], factor)))) << field.name << " for an upstream gradient times " << factor;
    }
  }
}

// Weights a token: what one token's upstream gradient adds must not depend on the others'.
TEST_P(EveryBackward, AddsUpOverPartsOfTheUpstreamGradient) {
  const Variant& variant = *GetParam();
  const Problem whole = judging_problem(variant, DType::F64);
  run_variant(variant, whole, Phase::Both, 2);
  Problem even = whole.converted(DType::F64, true), odd = whole.converted(DType::F64, true);
  for (const Field& field : whole.component().fields)
    if (field.role == Role::OutputGrad && whole[field.name])
      for (int64_t i = 0; i < whole[field.name].size(); ++i) set_value((i * 40503 / 64 % 2 == 0 ? odd : even)[field.name], i, 0);
  for (const Problem* part : {&even, &odd}) run_variant(variant, *part, Phase::Backward, 2);
  for (const Field& field : whole.component().fields) {
    if (field.role != Role::InputGrad || !whole[field.name]) continue;
    Tensor sum = clone(even[field.name]);
    for (int64_t i = 0; i < sum->size(); ++i) set_value(sum, i, value_at(sum, i) + value_at(odd[field.name], i));
    EXPECT_LE(relative_rms(sum, whole[field.name]), 1e-12) << field.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EveryBackward, testing::ValuesIn(cpu_variants([](const Variant& v) { return bool(v.backward); })), variant_name);

}  // namespace
}  // namespace megatoken::test
