// Planted faults of schemes must be far outside rounding: at fp32, against one rank at fp64.
#include <gtest/gtest.h>

#include <map>

#include "harness/check/fault.hpp"
#include "reference/schemes/run_scheme.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

std::vector<const Fault*> faults() {
  std::vector<const Fault*> found;
  for (const Fault* fault : Registry<Fault>::instance().all())
    if (fault->plant_scheme) found.push_back(fault);
  return found;
}

/// One rank at fp64 on the same inputs; many faults share it.
const Problem& oracle_of(const Problem& problem, const std::string& key) {
  static std::map<std::string, Problem> known;
  const auto [place, is_new] = known.try_emplace(key, problem.converted(DType::F64));
  if (is_new) run_variant(find_variant(problem.component().name, "cpu"), place->second, Phase::Both, hardware_threads());
  return place->second;
}

class SchemeFault : public testing::TestWithParam<const Fault*> {};

TEST_P(SchemeFault, IsFarOutsideRounding) {
  const Fault& fault = *GetParam();
  const Variant& cpu = find_variant(fault.component, "cpu");
  const Scheme wrong = fault.plant_scheme(find_scheme(fault.component, fault.scheme));
  const std::string axes = fault.axes.empty() ? find_component(fault.component).judging : fault.axes;
  double worst = 0;
  std::string seen;
  for (const char* distribution : {"normal", "aimed", "extreme"}) {
    const Problem problem = test::filled(fault.component, axes, DType::F32, distribution);
    const double difference = test::worst_difference(run_scheme(wrong, cpu, problem, fault.ranks, Phase::Both).result, oracle_of(problem, axes + distribution));
    seen += format(" {}={:.2g}", distribution, difference);
    worst = std::max(worst, difference);
  }
  RecordProperty("difference", seen);
  EXPECT_GE(worst, 1e-3) << fault.label() << seen;
}

INSTANTIATE_TEST_SUITE_P(Planted, SchemeFault, testing::ValuesIn(faults()), [](const auto& info) { return info.param->component + "_" + info.param->scheme + "_" + info.param->name; });

}  // namespace
}  // namespace megatoken
