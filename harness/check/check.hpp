// One check: one output compared under one strategy, and the gate rule that judges it.
#pragma once
#include <string>

#include "harness/check/metrics.hpp"
#include "harness/check/tolerances.hpp"

namespace megatoken {

struct Check {
  std::string output, strategy, oracle, metric;
  double value = 0, yardstick = 0, floor = 0, factor = 0, limit = 0;
  bool passed = false;
  Comparison comparison;
  std::string worst_index;
  std::string reason;   // what a check without numbers found
};

/// error ≤ factor · max(yardstick, floor), and no more single elements than the tolerance allows may be further off than 8 limits
/// and than 4 times the naive variant's own worst element.
/// Integer outputs and metric "wrong" must agree exactly.
Check judge(const Component& component, const Field& field, const std::string& strategy, const std::string& oracle, const TensorView& got,
            const TensorView& want, const TensorView* naive, DType dtype, const Tolerances& tolerances, bool exact = false);

/// A check that has no numbers: passed when `finding` is empty.
Check rule(const std::string& strategy, const std::string& output, const std::string& finding);

/// "dk rel_rms 3.1e-02 > 8.0e-03 at b=0,t=5 (got 1.2, want 0.4)"; for rules, what was found.
std::string describe(const Check& check);

}  // namespace megatoken
