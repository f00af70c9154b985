// A verb of the command line: one file harness/cli/verbs/<verb>.cpp that registers itself.
#pragma once
#include <string>
#include <vector>

#include "reference/core/registry.hpp"

namespace megatoken {

struct Verb {
  std::string name, summary;
  int (*run)(const std::vector<std::string>& arguments);  // returns the exit code; throws Error
  const std::string& label() const { return name; }
};

/// Exit codes of the program.
enum ExitCode { kPassed = 0, kWrongNumbers = 1, kUsage = 2, kGateFailed = 3, kUnsure = 4, kEnvironment = 5, kTimeout = 6, kAllSkipped = 77 };

}  // namespace megatoken
