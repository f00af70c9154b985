#include "harness/cli/run_flags.hpp"
#include "harness/cli/verb.hpp"

namespace megatoken {
namespace {

int run(const std::vector<std::string>& arguments) {
  RunFlags flags;
  parse_arguments("sweep", "check, time and memory over axes; resumable, out-of-memory and time-outs become rows", flags.flags(), {"SELECTOR", "component[/variant][@scheme] with * and ?, ! excludes; words of a key", &flags.words}, arguments);
  return run_plan(flags.plan(true), flags.options("sweep", arguments));
}

const Registered<Verb> registered{{"sweep", "check, time and memory over axes; resumable, out-of-memory and time-outs become rows", run}};

}  // namespace
}  // namespace megatoken
