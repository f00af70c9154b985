// Suites: named lists of cases in harness/suites/*.toml (built in) or a user's file.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/selection.hpp"

namespace megatoken {

struct SuiteBlock {
  Selection selection;
  bool time = false;                  // bench these cases as well
};

struct Suite {
  std::string name, about, text;      // text: the TOML, kept in the result file
  std::vector<SuiteBlock> blocks;     // in order
  std::vector<std::string> planted;   // component globs whose planted faults are judged
  std::vector<std::string> balance;   // "tokens:ranks" pairs of the balance check
  std::string timeout;                // limit of one case, as in "5m"; "": none. --timeout goes before it
  double sampling_time = 0;           // seconds of sampling for one case, 0: the default. --sampling-time goes before it
};

/// "ci", "demo", … or a path ending in .toml. Strict: unknown keys are usage errors.
Suite load_suite(const std::string& name);
Suite parse_suite(std::string_view toml, const std::string& source);
std::vector<std::string> suite_names();

}  // namespace megatoken
