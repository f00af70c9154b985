// judge: outputs that another program computed for a dumped case, held against the oracle by the gate rule.
#include <iostream>

#include "harness/cli/arguments.hpp"
#include "harness/cli/verb.hpp"
#include "harness/run/case_file.hpp"

namespace megatoken {
namespace {

constexpr const char* kAbout = "judge outputs that another program computed for a dumped case";

int run(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  CheckOptions options;
  int64_t threads = 0;
  parse_arguments("judge", kAbout,
                  {{"--threads", "CPU threads (default: all)", &threads},
                   {"--samples", "sampled rows or columns when the oracle would be too slow for all", &options.samples},
                   {"--full-flops", "compare every element while the case has at most this many FLOP", &options.full_flops}},
                  {"FILE", "the dumped case, then the file of outputs", &files}, arguments);
  MEGATOKEN_CHECK(files.size() == 2, "judge takes two files: the dumped case and the outputs");
  MEGATOKEN_CHECK(options.samples >= 1, "--samples {} is not valid; at least one index is needed", options.samples);
  options.threads = threads > 0 ? static_cast<int>(threads) : hardware_threads();
  const CaseReport report = judge_outputs(files[0], files[1], options);
  for (const Check& check : report.checks) std::cout << (check.passed ? "pass    " : "fail    ") << describe(check) << "\n";
  std::cout << report.status << "\n";
  return report.status == "pass" ? kPassed : report.status == "skipped" ? kAllSkipped : kWrongNumbers;
}

const Registered<Verb> registered{{"judge", kAbout, run}};

}  // namespace
}  // namespace megatoken
