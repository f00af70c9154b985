// Checks one case: builds its inputs, runs the subject under guard, applies every strategy that fits, gives a status.
#pragma once
#include <string>
#include <vector>

#include "harness/check/check.hpp"
#include "harness/check/subject.hpp"

namespace megatoken {

struct CheckOptions {
  int threads = 1;
  TokenSource tokens;                    // real text or DNA for distribution `tokens`; absent: synthetic
  std::function<std::string(uint64_t seed)> token_label;  // what it is
  double full_flops = 3e9;               // `full` while the component's cost model says at most this …
  int64_t samples = 24;                  // … else this many sampled rows or columns, and as many heads (`scan`) as full_flops allow, two at least
  std::vector<std::string> strategies;   // empty: whatever fits
  int repeat_calls = 1;
  Tolerances tolerances = Tolerances::standard();
};

struct CaseReport {
  std::string status;      // pass fail skipped error oom
  std::string reason;      // first failure, or why it was skipped
  std::vector<Check> checks;
  int deterministic = -1;  // −1: not looked at
  int64_t sent_bytes = -1; // all ranks together, schemes only
  int64_t predicted_bytes = -1;
  std::string tokens;      // label of the data, for distribution `tokens`
  double seconds = 0;
};

/// All strategy names, in the order they run.
const std::vector<std::string>& strategy_names();

/// Those whose oracle the case can pay for: beyond options.full_flops none that compares with every element.
std::vector<std::string> affordable_strategies(const Case& test, const CheckOptions& options);

/// Never throws for what the case does wrong: that becomes its status.
CaseReport check_case(const Case& test, const CheckOptions& options);
CaseReport check_subject(const Subject& subject, const Case& test, const CheckOptions& options);

}  // namespace megatoken
