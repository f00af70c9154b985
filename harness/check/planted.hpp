// Proof that the checks can fail: every planted fault is judged under every distribution; at least one strategy must reject it.
#pragma once
#include <string>
#include <vector>

#include "harness/check/checker.hpp"
#include "harness/check/fault.hpp"

namespace megatoken {

/// One cell of the matrix fault × strategy × distribution.
struct Trial {
  const Fault* fault = nullptr;
  std::string variant, strategy, distribution, key;
  bool rejected = false;
  Check worst;              // the check with the largest value/limit
  std::string reason;       // why the strategy could not look
};

struct FaultReport {
  const Fault* fault = nullptr;
  bool rejected = false;
  std::string skipped;      // why it could not be planted here
  std::vector<Trial> trials;
};

/// `variant`: the right variant that gets corrupted, "cpu" or "gpu"; a fault that names its own is skipped for any other than cpu.
/// Every strategy looks that options.full_flops allow. Faults that show from a length on are not called again and again.
FaultReport judge_fault(const Fault& fault, const std::string& variant, const CheckOptions& options);

}  // namespace megatoken
