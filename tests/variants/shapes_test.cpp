// Shapes and values that hid faults: any number of heads (tilelang #1252, flash-linear-attention #624), every example at fp64, tests whose
// inputs or results were zero (llama.cpp #27752: 117 of 120 tensors), gradients of another dtype than their input (Megatron#5049).
#include <set>

#include "reference/schemes/scheme.hpp"
#include "tests/variants/every_variant.hpp"

namespace megatoken::test {
namespace {

bool beside_the_oracle(const Variant& variant) { return variant.name != "cpu"; }

class EveryShape : public testing::TestWithParam<const Variant*> {};

void expect_oracle(const Variant& variant, const Problem& got, const std::string& what) {
  const Problem want = got.converted(DType::F64);
  run_variant(variant, got, phases_of(variant), 2);
  run_variant(find_variant(variant.component, "cpu"), want, phases_of(variant), 2);
  EXPECT_LE(worst_difference(got, want), 1e-11) << what;
}

TEST_P(EveryShape, OfTheExamplesAgreesWithTheOracle) {
  const Component& component = find_component(GetParam()->component);
  for (const auto& axes : component.examples)
    for (const char* distribution : {"normal", "aimed", "extreme", "tokens"}) expect_oracle(*GetParam(), filled(component.name, axes, DType::F64, distribution), axes + " " + distribution);
}

TEST_P(EveryShape, WithAnyNumberOfHeadsAgreesWithTheOracle) {
  const Component& component = find_component(GetParam()->component);
  if (std::none_of(component.axes.begin(), component.axes.end(), [](const AxisSpec& axis) { return axis.name == "h"; })) return;
  for (const int64_t h : {1, 3, 16, 24, 32, 64, 128}) {
    const std::string more = format("t=41 docs=2 h={} hk=1 group=2", h);
    expect_oracle(*GetParam(), judging_problem(*GetParam(), DType::F64, more), more);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EveryShape, testing::ValuesIn(cpu_variants(beside_the_oracle)), variant_name);

std::string component_name(const testing::TestParamInfo<const Component*>& info) { return info.param->name; }

class EveryContract : public testing::TestWithParam<const Component*> {};

// A gradient has its input's shape and, where it belongs to a sequence, its dtype. Those of weights add up over all tokens: never narrower than
// fp32 (Liger #507, #1296).
TEST_P(EveryContract, GivesEveryGradientTheShapeOfItsInputAndAFittingDtype) {
  const Component& component = *GetParam();
  for (const Field& field : component.fields) {
    if (field.role != Role::InputGrad && field.role != Role::OutputGrad) continue;
    const Field& of = component.fields[component.index(field.of)];
    EXPECT_EQ(field.axes, of.axes) << field.name;
    EXPECT_EQ(field.when, of.when) << field.name;
    const bool of_a_sequence = token_axis(component, of) >= 0 || Component::axis_position(of, "b") >= 0;
    EXPECT_EQ(field.kind, of_a_sequence ? of.kind : Kind::Accum) << field.name;
  }
}

/// Share of numbers that are not zero; 0 when all are equal.
double liveliness(const TensorView& view) {
  std::set<double> different;
  int64_t zeros = 0;
  for (int64_t i = 0; i < view.size(); ++i) different.insert(value_at(view, i)), zeros += value_at(view, i) == 0;
  if (different.size() < 2 && view.size() > 1) return 0;
  return 1 - static_cast<double>(zeros) / static_cast<double>(std::max<int64_t>(1, view.size()));
}

// Where faults are judged, no input and no result is zero or constant under both of the distributions that verify a result.
TEST_P(EveryContract, IsJudgedOnInputsAndResultsFullOfNumbers) {
  const Component& component = *GetParam();
  const Variant& cpu = find_variant(component.name, "cpu");
  const Problem normal = judging_problem(cpu, DType::F32), aimed = judging_problem(cpu, DType::F32, "", "aimed");
  for (const Problem* p : {&normal, &aimed}) run_variant(cpu, *p, phases_of(cpu), 2);
  for (size_t i = 0; i < component.fields.size(); ++i)
    EXPECT_TRUE(!normal.views()[i] || std::max(liveliness(normal.views()[i]), liveliness(aimed.views()[i])) >= 0.2) << component.fields[i].name;
}

INSTANTIATE_TEST_SUITE_P(Components, EveryContract, testing::ValuesIn(Registry<Component>::instance().all()), component_name);

}  // namespace
}  // namespace megatoken::test
