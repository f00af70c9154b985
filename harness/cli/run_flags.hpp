// The options that check, bench, sweep and replay share.
#pragma once
#include <string>
#include <vector>

#include "harness/cli/arguments.hpp"
#include "harness/run/runner.hpp"

namespace megatoken {

struct RunFlags {
  std::vector<std::string> words;     // selectors and key words
  std::vector<std::string> axes;      // -a
  std::string suite, ranks, output, junit, json, timeout, budget, shard, seed, tokens, data;
  std::vector<std::string> tags, strategies;
  bool dry_run = false, resume = false, isolate = false, allow_skip_all = false, planted = false;
  std::string planted_variant = "cpu";
  int64_t threads = 0, samples = 24, max_samples = 200;
  double full_flops = 3e9, relative_interval = 0.02, sampling_time = 0;

  std::vector<Flag> flags();
  /// Everything but the cases.
  RunOptions options(const std::string& verb, const std::vector<std::string>& arguments) const;
  /// From --suite or the selectors. Timed cases are those of `time`, or what the suite says.
  RunPlan plan(bool time) const;
};

/// "90", "60s", "45m", "2h" → seconds; "" → 0.
double parse_duration(const std::string& text, const std::string& flag);

}  // namespace megatoken
