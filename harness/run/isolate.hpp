// One case in a process of its own: a crash, a hang or a runaway allocation costs that case only.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace megatoken {

struct ChildResult {
  std::string status;  // "" when the child ended by itself with rows written; else timeout, crash, oom
  std::string reason;
  double seconds = 0;
};

/// Runs this program again with `arguments`, its output discarded; kills it after `timeout` seconds (0: never).
/// `memory_limit` bytes of address space (0: none; GPU drivers reserve far more than they use, so not for GPU cases).
ChildResult run_child(const std::vector<std::string>& arguments, double timeout, int64_t memory_limit);

}  // namespace megatoken
