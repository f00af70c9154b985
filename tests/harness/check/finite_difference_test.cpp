// Every backward of every fp64 reference against finite differences, on every example shape of its component.
#include "harness/check/finite_difference.hpp"

#include <gtest/gtest.h>

namespace megatoken {
namespace {

struct Example {
  const Variant* variant;
  std::string axes, distribution;
};

std::vector<Example> all_examples() {
  std::vector<Example> examples;
  for (const Variant* variant : Registry<Variant>::instance().all()) {
    const bool reference = variant->device == Device::Cpu && variant->name.rfind("cpu", 0) == 0;
    if (!reference || !variant->backward) continue;
    for (const auto& axes : find_component(variant->component).examples)
      for (const char* distribution : {"normal", "aimed"}) examples.push_back({variant, axes, distribution});
  }
  return examples;
}

class FiniteDifference : public testing::TestWithParam<Example> {};

TEST_P(FiniteDifference, MatchesBackward) {
  const auto& [variant, axes, distribution] = GetParam();
  const Component& component = find_component(variant->component);
  Problem problem(component, component.complete(Axes::parse(axes)), DType::F64);
  problem.fill(distribution, 7);
  for (const auto& result : finite_difference_errors(*variant, problem))
    EXPECT_LE(result.error, 1e-7) << variant->label() << " " << axes << " " << distribution << ": " << result.gradient << " at element " << result.worst;
}

INSTANTIATE_TEST_SUITE_P(References, FiniteDifference, testing::ValuesIn(all_examples()), [](const auto& info) {
  std::string name = info.param.variant->label() + "_" + info.param.axes + "_" + info.param.distribution;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

TEST(FiniteDifferenceJudge, RejectsAGradientThatIsWrongByOnePartInAThousand) {
  const Component& component = find_component("attention");
  Variant wrong = find_variant("attention", "cpu");
  wrong.backward = [right = wrong.backward, i = component.index("dk")](const Call& call) {
    right(call);
    for (int64_t e = 0; e < call.views[i].size(); ++e) set_value(call.views[i], e, 1.001 * value_at(call.views[i], e));
  };
  Problem problem(component, component.complete(Axes::parse("t=6 h=2 d=3")), DType::F64);
  problem.fill("normal", 1);
  for (const auto& result : finite_difference_errors(wrong, problem)) {
    if (result.gradient == "dk") EXPECT_GT(result.error, 5e-4);
    else EXPECT_LT(result.error, 1e-7);
  }
}

}  // namespace
}  // namespace megatoken
