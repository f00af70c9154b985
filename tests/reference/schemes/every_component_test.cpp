// Every scheme of every component against one rank at fp64, on the component's own example shapes.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/schemes/run_scheme.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

struct Example {
  const Scheme* scheme;
  const Component* component;
};

std::vector<Example> examples() {
  std::vector<Example> all;
  for (const Component* component : Registry<Component>::instance().all())
    if (!component->token_axes.empty() && !component->examples.empty())
      for (const Scheme* scheme : schemes_of(component->name)) all.push_back({scheme, component});
  return all;
}

/// Equal elements (infinities too) do not count; a NaN counts as infinitely far.
double worst_relative_difference(const TensorView& got, const TensorView& want) {
  double difference = 0, scale = 0;
  for (int64_t i = 0; i < want.size(); ++i) {
    const double a = value_at(got, i), b = value_at(want, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    difference = std::isnan(a - b) ? std::numeric_limits<double>::infinity() : std::max(difference, std::abs(a - b));
    scale = std::max(scale, std::abs(b));
  }
  return difference == 0 ? 0 : difference / scale;
}

class EveryComponent : public testing::TestWithParam<Example> {};

TEST_P(EveryComponent, EqualsOneRankOnItsExamples) {
  const auto& [scheme, component] = GetParam();
  const Variant& cpu = find_variant(component->name, "cpu");
  const Phase phase = cpu.backward && scheme->backward ? Phase::Both : Phase::Forward;
  int compared = 0;
  for (const auto& text : component->examples) {
    const Axes axes = component->complete(Axes::parse(text));
    Problem whole(*component, axes, DType::F64);
    whole.fill("normal", 3);
    for (int ranks : {2, 3}) {
      if (!scheme_unsupported(*scheme, cpu, axes, DType::F64, ranks, phase).empty()) continue;
      const SchemeRun run = run_scheme(*scheme, cpu, whole, ranks, phase, 1, {.timeout = 60});
      const Problem oracle = whole.converted(DType::F64);
      run_variant(cpu, oracle, phase);
      for (const auto& field : component->fields) {
        const bool judged = field.role == Role::Output || (field.role == Role::InputGrad && phase == Phase::Both);
        if (!judged || !oracle[field.name]) continue;
        EXPECT_LE(worst_relative_difference(run.result[field.name], oracle[field.name]), 1e-12) << text << " on " << ranks << " ranks: " << field.name;
        ++compared;
      }
      for (const Ledger& ledger : run.ledgers) EXPECT_EQ(ledger.sent(), scheme->bytes_sent(*component, axes, DType::F64, ranks, phase)) << text;
    }
  }
  EXPECT_GT(compared, 0) << "no example of " << component->name << " fits " << scheme->name;
}

INSTANTIATE_TEST_SUITE_P(Schemes, EveryComponent, testing::ValuesIn(examples()), [](const auto& info) {
  return info.param.component->name + "_" + info.param.scheme->name;
});

}  // namespace
}  // namespace megatoken
