#include "harness/cli/run_flags.hpp"
#include "harness/cli/verb.hpp"

namespace megatoken {
namespace {

int run(const std::vector<std::string>& arguments) {
  RunFlags flags;
  parse_arguments("bench", "check, then time", flags.flags(), {"SELECTOR", "component[/variant][@scheme] with * and ?, ! excludes; words of a key", &flags.words}, arguments);
  return run_plan(flags.plan(true), flags.options("bench", arguments));
}

const Registered<Verb> registered{{"bench", "check, then time", run}};

}  // namespace
}  // namespace megatoken
