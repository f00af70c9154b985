#include "harness/cli/run_flags.hpp"
#include "harness/cli/verb.hpp"
#include "harness/store/result_file.hpp"

namespace megatoken {
namespace {

constexpr const char* kAbout = "run the failed rows of a result file again";

int run(const std::vector<std::string>& arguments) {
  RunFlags flags;
  bool all = false;
  auto options = flags.flags();
  options.push_back({"--all", "every row, not only those that did not pass", &all});
  parse_arguments("replay", kAbout, options, {"FILE", "result file", &flags.words}, arguments);
  MEGATOKEN_CHECK(flags.words.size() == 1, "replay takes one result file");
  const ResultReader reader(flags.words[0]);
  const Table& results = reader.table("results");
  RunPlan plan;
  for (size_t row = 0; row < static_cast<size_t>(results.rows()); ++row) {
    const std::string& status = results.strings("status")[row];
    if (!all && (status == "pass" || status == "skipped")) continue;
    plan.cases.push_back({Case::parse(results.strings("key")[row]), results.floats("time_median")[row] > 0});
  }
  if (plan.cases.empty()) throw Error(ErrorKind::Usage, flags.words[0] + " has no row to run again", "add --all to repeat the rows that passed");
  return run_plan(plan, flags.options("replay", arguments));
}

const Registered<Verb> registered{{"replay", kAbout, run}};

}  // namespace
}  // namespace megatoken
