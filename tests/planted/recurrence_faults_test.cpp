// Planted faults of short_conv and kda must be far outside rounding: forward and gradients of each are held against the
// oracle, at fp64 so that only the fault differs, on every distribution of the component.
#include <gtest/gtest.h>

#include "tests/compare.hpp"
#include "tests/planted/plant.hpp"

namespace megatoken {
namespace {

std::vector<const Fault*> faults() {
  std::vector<const Fault*> found;
  for (const Fault* fault : Registry<Fault>::instance().all())
    if (fault->component == "short_conv" || fault->component == "kda") found.push_back(fault);
  return found;
}

class RecurrenceFault : public testing::TestWithParam<const Fault*> {};

TEST_P(RecurrenceFault, IsFarOutsideRounding) {
  const Fault& fault = *GetParam();
  const Component& component = find_component(fault.component);
  const Variant& truth = find_variant(fault.component, "cpu");
  const Variant wrong = fault.plant(truth);
  const std::string axes = fault.axes.empty() ? component.judging : fault.axes;
  double worst = 0;
  std::string seen;
  for (const auto& distribution : component.distributions) {
    Problem right = test::filled(fault.component, axes, DType::F64, distribution), broken = test::filled(fault.component, axes, DType::F64, distribution);
    run_variant(truth, right, Phase::Both);
    run_variant(wrong, broken, Phase::Both);
    const double difference = test::worst_difference(broken, right);
    seen += format(" {}={:.2g}", distribution, difference);
    worst = std::max(worst, difference);
  }
  RecordProperty("difference", seen);
  EXPECT_GE(worst, 1e-2) << fault.label() << seen;
}

INSTANTIATE_TEST_SUITE_P(Planted, RecurrenceFault, testing::ValuesIn(faults()), [](const auto& info) { return info.param->component + "_" + info.param->name; });

}  // namespace
}  // namespace megatoken
