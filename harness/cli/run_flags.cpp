#include "harness/cli/run_flags.hpp"

#include <algorithm>

#include "harness/run/token_source.hpp"
#include "reference/core/names.hpp"

namespace megatoken {

constexpr double kSamplingSeconds = 20;  // for one case, unless the suite or the command line says otherwise

std::vector<Flag> RunFlags::flags() {
  return {{"-a,--axis", "axis values: t=64Ki:1Mi:x2, h=2,4, dtype=bf16,fp32, dist=aimed, phase=fwd (repeatable)", &axes},
          {"--suite", "cases from a suite: " + join(suite_names(), ", ") + " or a .toml file", &suite},
          {"--ranks", "ranks of schemes, as in 1,2,4", &ranks},
          {"--seed", "seed of the random inputs", &seed},
          {"--tokens,--text,--fasta", "data set or file (text, FASTA, .2bit) for distribution tokens", &tokens},
          {"--data", "data folder (default: data, and the one named by MEGATOKEN_DATA)", &data},
          {"-o,--output", "result file, never overwritten (default results/<time>-<host>-<id>.h5)", &output},
          {"--junit", "also write JUnit XML here", &junit},
          {"--json", "also write the tables as JSON here", &json},
          {"--tag", "key=value kept in the result file (repeatable)", &tags},
          {"--strategy", "only these strategies (repeatable): " + join(strategy_names(), " "), &strategies},
          {"--planted", "judge the planted faults of the selected components instead of cases", &planted},
          {"--planted-variant", "which right variant gets corrupted", &planted_variant},
          {"--dry-run", "print the cases with their predicted work, memory and traffic; run nothing", &dry_run},
          {"--resume", "go on with an interrupted --output file", &resume},
          {"--isolate", "every case in a process of its own", &isolate},
          {"--timeout", "limit for one case, as in 60s or 5m (implies --isolate)", &timeout},
          {"--budget", "start no further case after this time", &budget},
          {"--shard", "i/N: run only every N-th case, starting at the i-th (from 0)", &shard},
          {"--threads", "CPU threads (default: all)", &threads},
          {"--samples", "sampled rows or columns of a strategy", &samples},
          {"--full-flops", "compare every element while the case has at most this many FLOP", &full_flops},
          {"--max-samples", "timing samples at most", &max_samples},
          {"--relative-interval", "stop sampling when the median is known this well", &relative_interval},
          {"--sampling-time", "seconds of sampling for one case at most (default: the suite's, or 20)", &sampling_time},
          {"--allow-skip-all", "exit 0 although every case was skipped", &allow_skip_all}};
}

double parse_duration(const std::string& text, const std::string& flag) {
  if (text.empty()) return 0;
  double unit = 1;
  std::string number = text;
  switch (text.back()) {
    case 'h': unit = 3600, number.pop_back(); break;
    case 'm': unit = 60, number.pop_back(); break;
    case 's': number.pop_back(); break;
    default: break;
  }
  const double seconds = unit * parse_number(number, flag + " " + text);
  MEGATOKEN_CHECK(seconds > 0, "{} {} is not a duration; write 60s, 5m or 2h", flag, text);
  return seconds;
}

RunOptions RunFlags::options(const std::string& verb, const std::vector<std::string>& arguments) const {
  RunOptions options;
  const Suite given = suite.empty() ? Suite{} : load_suite(suite);
  options.config_toml = given.text;
  options.verb = verb;
  options.argv = arguments;
  options.argv.insert(options.argv.begin(), {"megatoken", verb});
  options.check.threads = threads > 0 ? static_cast<int>(threads) : hardware_threads();
  const TokenData token_data = open_tokens(tokens, data);
  options.check.tokens = token_data.source;
  options.check.token_label = token_data.label;
  MEGATOKEN_CHECK(samples >= 1, "--samples {} is not valid; at least one index is needed", samples);
  options.check.samples = samples;
  options.check.full_flops = full_flops;
  for (const auto& strategy : strategies) {
    const auto& names = strategy_names();
    if (std::find(names.begin(), names.end(), strategy) == names.end()) throw_unknown_name("strategy", strategy, names);
  }
  options.check.strategies = strategies;
  MEGATOKEN_CHECK(max_samples >= 1 && relative_interval > 0 && sampling_time >= 0, "--max-samples, --relative-interval and --sampling-time must be positive");
  options.stop.max_samples = max_samples;
  options.stop.relative_interval = relative_interval;
  options.stop.timeout = sampling_time > 0 ? sampling_time : given.sampling_time > 0 ? given.sampling_time : kSamplingSeconds;
  options.timeout = timeout.empty() ? parse_duration(given.timeout, suite + " timeout") : parse_duration(timeout, "--timeout");
  if (options.timeout > 0) options.stop.timeout = std::min(options.stop.timeout, options.timeout / 4);  // leaves time for the checks before
  options.child_flags = {"--threads", format("{}", options.check.threads), "--samples", format("{}", samples), "--full-flops", format_number(full_flops), "--max-samples",
                         format("{}", max_samples), "--relative-interval", format_number(relative_interval), "--sampling-time", format_number(options.stop.timeout)};
  if (!tokens.empty()) options.child_flags.insert(options.child_flags.end(), {"--tokens", tokens});
  if (!data.empty()) options.child_flags.insert(options.child_flags.end(), {"--data", data});
  for (const auto& strategy : strategies) options.child_flags.insert(options.child_flags.end(), {"--strategy", strategy});
  options.output = output;
  options.junit = junit;
  options.json = json;
  for (const auto& tag : tags) {
    const auto equals = tag.find('=');
    MEGATOKEN_CHECK(equals != tag.npos && equals > 0, "--tag '{}' is not of the form key=value", tag);
    options.tags[tag.substr(0, equals)] = tag.substr(equals + 1);
  }
  options.dry_run = dry_run;
  options.resume = resume;
  MEGATOKEN_CHECK(!resume || !output.empty(), "--resume needs the file to go on with; add -o FILE.h5");
  options.isolate = isolate;
  options.allow_skip_all = allow_skip_all;
  options.budget = parse_duration(budget, "--budget");
  if (!shard.empty()) {
    const auto parts = split(shard, '/');
    MEGATOKEN_CHECK(parts.size() == 2, "--shard '{}' is not of the form i/N", shard);
    options.shard = static_cast<int>(parse_number(parts[0], "--shard " + shard));
    options.shards = static_cast<int>(parse_number(parts[1], "--shard " + shard));
    MEGATOKEN_CHECK(options.shards >= 1 && options.shard >= 0 && options.shard < options.shards, "--shard {}: i runs from 0 to N-1", shard);
  }
  return options;
}

RunPlan RunFlags::plan(bool time) const {
  Selection typed = parse_words(words);
  for (const auto& axis : axes) typed.settings.push_back(axis);
  if (!ranks.empty()) typed.settings.push_back("ranks=" + ranks);
  if (!seed.empty()) typed.settings.push_back("seed=" + seed);
  RunPlan plan;
  if (planted) {
    plan.planted = typed.selectors.empty() ? std::vector<std::string>{"*"} : typed.selectors;
  } else if (!suite.empty()) {
    plan = plan_of(load_suite(suite));
    if (!typed.selectors.empty())  // a suite, narrowed by selectors
      std::erase_if(plan.cases, [&](const PlannedCase& p) { return !selected(typed.selectors, p.test.component, p.test.variant, p.test.scheme); });
    if (!typed.selectors.empty()) plan.planted.clear(), plan.balance.clear();
    MEGATOKEN_CHECK(typed.settings.empty(), "a suite fixes its own axes; give either --suite or axes");
    MEGATOKEN_CHECK(!plan.cases.empty() || !plan.planted.empty() || !plan.balance.empty(), "suite {} has no case for {}", suite, join(typed.selectors, " "));
    if (!time)
      for (auto& planned : plan.cases) planned.time = false;
  } else {
    for (auto& test : expand(typed)) plan.cases.push_back({std::move(test), time});
  }
  plan.planted_variant = planted_variant;
  return plan;
}

}  // namespace megatoken
