#include "harness/check/planted.hpp"

#include <algorithm>

namespace megatoken {
namespace {

/// Beyond its limit by how much; rules count as infinitely far.
double excess(const Check& check) {
  if (check.passed) return check.limit > 0 ? check.value / check.limit : 0;
  return check.limit > 0 ? std::max(check.value / check.limit, 1.0) : 1e300;
}

}  // namespace

FaultReport judge_fault(const Fault& fault, const std::string& variant_name, const CheckOptions& given) {
  FaultReport report{&fault, false, "", {}};
  const Component& component = find_component(fault.component);
  if (!fault.variant.empty() && variant_name != "cpu" && variant_name != fault.variant) {
    report.skipped = "is planted in " + fault.component + "/" + fault.variant;
    return report;
  }
  const Variant& truth = find_variant(fault.component, fault.variant.empty() ? variant_name : fault.variant);
  if (fault.cpu_only && truth.device == Device::Gpu) {
    report.skipped = "cannot be planted in a GPU variant";
    return report;
  }
  const Scheme* scheme = fault.scheme.empty() ? nullptr : &find_scheme(fault.component, fault.scheme);
  const Scheme wrong_scheme = scheme && fault.plant_scheme ? fault.plant_scheme(*scheme) : scheme ? *scheme : Scheme{};

  Case test;
  test.component = fault.component;
  test.variant = truth.name;
  test.scheme = fault.scheme;
  test.phase = component.has_gradients() ? Phase::Both : Phase::Forward;
  test.dtype = DType::F32;
  test.ranks = scheme ? fault.ranks : 1;
  test.axes = component.complete(Axes::parse(fault.axes.empty() ? component.judging : fault.axes));

  for (const auto& distribution : fault.distributions.empty() ? component.distributions : fault.distributions) {
    test.distribution = distribution;
    // A fresh copy each time: faults with a memory (wrong from the eleventh call on) start anew.
    Subject subject{&component, fault.plant ? fault.plant(truth) : truth, scheme ? &wrong_scheme : nullptr, test.ranks, given.threads};
    if (std::string reason = subject.unsupported(test.axes, test.dtype, test.phase); !reason.empty()) {
      report.skipped = reason;
      return report;
    }
    CheckOptions options = given;
    options.strategies = affordable_strategies(test, options);
    if (fault.beyond > 0) std::erase(options.strategies, "repeat");
    options.repeat_calls = distribution == component.distributions.front() ? 12 : 1;  // one is enough to find a fault that waits ten calls
    const CaseReport result = check_subject(subject, test, options);
    for (const auto& strategy : strategy_names()) {
      Trial trial{&fault, truth.name, strategy, distribution, test.key(), false, {}, ""};
      bool looked = false;
      for (const Check& check : result.checks) {
        if (check.strategy != strategy) continue;
        if (!looked || excess(check) > excess(trial.worst)) trial.worst = check;
        looked = true;
        trial.rejected |= !check.passed;
      }
      if (!looked && result.status != "error") continue;
      if (!looked) {  // a fault that throws is rejected, whatever the strategy
        trial.rejected = strategy == "full";
        trial.reason = result.reason;
        if (strategy != "full") continue;
      }
      report.rejected |= trial.rejected;
      report.trials.push_back(std::move(trial));
    }
  }
  return report;
}

}  // namespace megatoken
