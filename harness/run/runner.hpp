// Runs a list of cases and writes rows: check, or check and time; planted faults; the balance check. One loop serves the
// verbs check, bench, sweep and replay.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/check/checker.hpp"
#include "harness/measure/statistics.hpp"
#include "harness/run/suite.hpp"

namespace megatoken {

struct PlannedCase {
  Case test;
  bool time = false;
};

struct RunPlan {
  std::vector<PlannedCase> cases;
  std::vector<std::string> planted;  // component globs
  std::string planted_variant = "cpu";
  std::vector<std::string> balance;  // "tokens:ranks"
};

struct RunOptions {
  std::string verb;
  std::vector<std::string> argv;
  std::string config_toml;
  CheckOptions check;
  StopRule stop;
  std::string output, junit, json;   // output "": results/<utc>-<host>-<id>.h5
  std::map<std::string, std::string> tags;
  std::vector<std::string> child_flags;  // options an isolated case needs too
  bool dry_run = false, resume = false, isolate = false, allow_skip_all = false, save_failed = false;
  double timeout = 0;                // seconds a case may take, 0: no limit; implies isolate
  double budget = 0;                 // seconds after which no further case is started, 0: no limit
  int shard = 0, shards = 1;         // runs every case whose number modulo shards is shard
};

/// Returns the exit code: wrong numbers 1, before errors 5 and time-outs 6, before "everything skipped" 77, else 0.
int run_plan(const RunPlan& plan, const RunOptions& options);

/// The plan of a suite.
RunPlan plan_of(const Suite& suite);

}  // namespace megatoken
