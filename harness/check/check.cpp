#include "harness/check/check.hpp"

#include <algorithm>

namespace megatoken {

Check judge(const Component& component, const Field& field, const std::string& strategy, const std::string& oracle, const TensorView& got,
            const TensorView& want, const TensorView* naive, DType dtype, const Tolerances& tolerances, bool exact) {
  const Tolerance t = tolerances.lookup(component.name, field.name, dtype, field.role == Role::InputGrad);
  Check check{field.name, strategy, oracle};
  check.floor = t.floor;
  check.factor = t.factor;
  check.metric = exact || field.kind == Kind::Index ? "wrong" : t.metric;
  double naive_tail = 0;
  if (naive) {
    const Comparison c = compare(*naive, want);
    check.yardstick = check.metric == "cosine" ? c.cosine_distance : c.rel_rms;
    if (!std::isfinite(check.yardstick)) check.yardstick = 0;  // a naive overflow excuses nothing
    else naive_tail = c.tail;
  }
  check.limit = check.metric == "wrong" ? 0 : t.factor * std::max(check.yardstick, t.floor);
  check.comparison = compare(got, want, std::max(8 * check.limit, 4 * naive_tail));
  const Comparison& c = check.comparison;
  check.value = check.metric == "wrong" ? static_cast<double>(c.wrong) : check.metric == "cosine" ? c.cosine_distance : c.rel_rms;
  check.passed = check.value <= check.limit && c.nonfinite == 0;
  if (check.passed && check.metric == "rel_rms" && c.outlier_fraction > t.outlier_fraction) {
    check.passed = false;
    check.reason = format("{:.1e} of the elements are off by more than 8 limits, the worst by {:.1e}", c.outlier_fraction, c.tail);
  }
  check.worst_index = coordinate(field.axes, got.shape, c.worst);
  return check;
}

Check rule(const std::string& strategy, const std::string& output, const std::string& finding) {
  Check check{output, strategy, ""};
  check.metric = "rule";
  check.passed = finding.empty();
  check.value = finding.empty() ? 0 : 1;
  check.reason = finding;
  return check;
}

std::string describe(const Check& check) {
  if (check.metric == "rule") return format("{}: {}", check.strategy, check.reason.empty() ? check.output + " in order" : check.reason);
  return format("{} {} {:.1e} {} {:.1e} ({}) at {} (got {:.4g}, want {:.4g}){}", check.output, check.metric, check.value, check.passed ? "<=" : ">", check.limit,
                check.strategy, check.worst_index, check.comparison.worst_got, check.comparison.worst_want, check.reason.empty() ? "" : ": " + check.reason);
}

}  // namespace megatoken
