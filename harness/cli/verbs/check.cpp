#include "harness/cli/run_flags.hpp"
#include "harness/cli/verb.hpp"

namespace megatoken {
namespace {

int run(const std::vector<std::string>& arguments) {
  RunFlags flags;
  parse_arguments("check", "correctness: compare with the oracle, judge planted faults", flags.flags(), {"SELECTOR", "component[/variant][@scheme] with * and ?, ! excludes; words of a key", &flags.words}, arguments);
  return run_plan(flags.plan(false), flags.options("check", arguments));
}

const Registered<Verb> registered{{"check", "correctness: compare with the oracle, judge planted faults", run}};

}  // namespace
}  // namespace megatoken
