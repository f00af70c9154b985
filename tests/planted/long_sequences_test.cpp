// Faults of length: each looks right at the axes at which all faults are judged, and is rejected at 64Ki tokens by the strategies that are
// made for lengths no oracle reaches. Prints which.
#include <gtest/gtest.h>

#include <set>

#include "harness/check/planted.hpp"

namespace megatoken {
namespace {

std::vector<const Fault*> faults() {
  std::vector<const Fault*> found;
  for (const Fault* fault : Registry<Fault>::instance().all())
    if (fault->beyond > 0) found.push_back(fault);
  return found;
}

std::set<std::string> strategies_that_reject(const Fault& fault, const CheckOptions& options) {
  const FaultReport report = judge_fault(fault, "cpu", options);
  EXPECT_EQ(report.skipped, "");
  std::set<std::string> names;
  for (const Trial& trial : report.trials)
    if (trial.rejected) names.insert(trial.strategy);
  return names;
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

class LongFault : public testing::TestWithParam<const Fault*> {};

TEST_P(LongFault, LooksRightWhenShortAndIsRejectedAt64Ki) {
  CheckOptions options;
  options.threads = hardware_threads();
  Fault brief = *GetParam();
  brief.axes.clear();
  brief.distributions.clear();
  EXPECT_EQ(listed(strategies_that_reject(brief, options)), "") << brief.label() << " at " << find_component(brief.component).judging;

  const std::set<std::string> seen = strategies_that_reject(*GetParam(), options);
  std::cout << GetParam()->label() << " at " << GetParam()->axes << ": " << listed(seen) << "\n";
  std::set<std::string> made_for_length = seen;
  made_for_length.erase("full");
  const bool only_a_sum = GetParam()->name.ends_with("_in_bf16");  // of which no part can be recomputed alone
  EXPECT_FALSE((only_a_sum ? seen : made_for_length).empty());
}

INSTANTIATE_TEST_SUITE_P(Planted, LongFault, testing::ValuesIn(faults()), [](const auto& info) { return info.param->component + "_" + info.param->name; });

TEST(LongFaults, ExistForEveryKindOfError) {
  std::set<std::string> components;
  for (const Fault* fault : faults()) components.insert(fault->component);
  EXPECT_EQ(components, (std::set<std::string>{"attention", "index_topk", "kda", "linear_cross_entropy", "short_conv", "sparse_attention"}));
}

}  // namespace
}  // namespace megatoken
