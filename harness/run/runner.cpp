#include "harness/run/runner.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>

#include "harness/check/planted.hpp"
#include "harness/cli/verb.hpp"
#include "harness/measure/timer.hpp"
#include "harness/run/balance_check.hpp"
#include "harness/run/isolate.hpp"
#include "harness/run/machine.hpp"
#include "harness/run/progress.hpp"
#include "harness/run/rows.hpp"
#include "harness/store/export.hpp"
#include "harness/store/junit.hpp"
#include "harness/store/text.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

using Clock = std::chrono::steady_clock;

std::string quoted_repro(const std::string& verb, const Case& test) { return "megatoken " + (verb == "replay" ? "check" : verb) + " " + test.key(); }

void print_plan(const std::vector<PlannedCase>& cases) {
  double flops = 0;
  int64_t memory = 0;
  for (const auto& planned : cases) {
    const Prediction p = predict(planned.test);
    std::cout << format("{}\n        {:.3g} FLOP, {} moved, {} of tensors{}{}\n", planned.test.key(), p.flops, format_bytes(static_cast<double>(p.bytes)),
                        format_bytes(static_cast<double>(p.memory)), p.sent >= 0 ? ", " + format_bytes(static_cast<double>(p.sent)) + " sent" : "", planned.time ? ", timed" : "");
    flops += p.flops;
    memory = std::max(memory, p.memory);
  }
  std::cout << format("{} cases, {:.3g} FLOP, largest {}\n", cases.size(), flops, format_bytes(static_cast<double>(memory)));
}

/// Checks (and times) one case in this process.
void run_here(ResultFile& file, const PlannedCase& planned, const RunOptions& options, Progress& progress) {
  const std::string started = utc_now();
  CaseReport report = check_case(planned.test, options.check);
  Timing timing;
  bool timed = false;
  if (planned.time && report.status == "pass") {
    try {
      const Subject subject = Subject::of(planned.test, options.check.threads);
      Problem problem(*subject.component, planned.test.axes, planned.test.dtype);
      problem.fill(planned.test.distribution, planned.test.seed, options.check.tokens);
      timing = time_subject(subject, problem, planned.test.phase, options.stop);
      timed = true;
    } catch (const std::bad_alloc&) {
      report.status = "oom";
      report.reason = "out of memory while timing";
    } catch (const Error& error) {
      report.status = "error";
      report.reason = error.what();
    }
  }
  append_result(file, planned.test, report, timed ? &timing : nullptr, started, quoted_repro(options.verb, planned.test));
  progress.done(planned.test, report, timed ? &timing : nullptr);
}

int64_t installed_memory() { return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE); }

/// The same in a child process, whose rows are merged.
void run_isolated(ResultFile& file, const PlannedCase& planned, const RunOptions& options, Progress& progress) {
  const std::string started = utc_now();
  const std::string part = format("{}.case{}.h5", file.path(), getpid());
  std::filesystem::remove(part);
  std::vector<std::string> arguments{planned.time ? "bench" : "check"};
  for (const auto& word : split(planned.test.key(), ' ')) arguments.push_back(word);
  arguments.insert(arguments.end(), {"-o", part});
  arguments.insert(arguments.end(), options.child_flags.begin(), options.child_flags.end());
  const bool gpu = find_variant(planned.test.component, planned.test.variant).device == Device::Gpu;
  const ChildResult child = run_child(arguments, options.timeout, gpu ? 0 : installed_memory());
  CaseReport report;
  report.seconds = child.seconds;
  report.status = child.status;
  report.reason = child.reason;
  if (report.status.empty() && !std::filesystem::exists(part)) report.status = "crash";
  if (report.status.empty()) {
    const ResultReader rows(part);
    merge_rows(file, rows);
    const Table& results = rows.table("results");
    report.status = results.strings("status").front();
    report.reason = results.strings("reason").front();
    Timing timing;
    timing.summary = {results.floats("time_median").front(), results.floats("time_q25").front(), results.floats("time_q75").front()};
    progress.done(planned.test, report, timing.summary.median > 0 ? &timing : nullptr);
  } else {
    append_result(file, planned.test, report, nullptr, started, quoted_repro(options.verb, planned.test));
    progress.done(planned.test, report, nullptr);
  }
  std::filesystem::remove(part);
}

/// The case but for its length and its numbers: what all points of one curve over tokens share.
std::string curve_of(const Case& test) {
  Case curve = test;
  curve.axes = find_component(test.component).shortened(test.axes, 0);
  curve.distribution.clear();
  curve.seed = 0;
  return curve.key();
}

/// Why a case is not worth its time-out: one of the same curve that is no longer has run out of time or memory; "" when it is.
std::string hopeless(const Table& results, const Case& test) {
  const auto& token_axes = find_component(test.component).token_axes;
  if (token_axes.empty()) return "";
  for (size_t row = 0; row < static_cast<size_t>(results.rows()); ++row) {
    const std::string& status = results.strings("status")[row];
    if (status != "timeout" && status != "oom") continue;
    const Case stopped = Case::parse(results.strings("key")[row]);
    const int64_t tokens = stopped.component == test.component ? stopped.axes[token_axes.front()] : 0;
    if (tokens > 0 && tokens < test.axes[token_axes.front()] && curve_of(stopped) == curve_of(test)) return format("{} at {} tokens already", status, tokens);
  }
  return "";
}

std::vector<const Fault*> chosen_faults(const std::vector<std::string>& globs) {
  std::vector<const Fault*> faults;
  for (const Fault* fault : Registry<Fault>::instance().all())
    if (std::any_of(globs.begin(), globs.end(), [&](const auto& glob) { return matches_glob(fault->component, glob) || matches_glob(fault->label(), glob); })) faults.push_back(fault);
  return faults;
}

/// A resumed run finds its own rows in the file.
bool already_judged(const Table& table, const Fault& fault) {
  for (size_t row = 0; row < static_cast<size_t>(table.rows()); ++row)
    if (table.strings("fault")[row] == fault.name && table.strings("component")[row] == fault.component && table.strings("scheme")[row] == fault.scheme) return true;
  return false;
}

}  // namespace

RunPlan plan_of(const Suite& suite) {
  RunPlan plan;
  for (const auto& block : suite.blocks)
    for (auto& test : expand(block.selection)) plan.cases.push_back({std::move(test), block.time});
  plan.planted = suite.planted;
  plan.balance = suite.balance;
  return plan;
}

int run_plan(const RunPlan& plan, const RunOptions& options) {
  std::vector<PlannedCase> cases;
  for (size_t i = 0; i < plan.cases.size(); ++i)
    if (static_cast<int>(i % static_cast<size_t>(options.shards)) == options.shard) cases.push_back(plan.cases[i]);
  auto faults = options.shard == 0 ? chosen_faults(plan.planted) : std::vector<const Fault*>{};
  if (options.dry_run) {
    print_plan(cases);
    return kPassed;
  }
  const RunInfo info{options.argv, options.config_toml, options.tags};
  ResultFile file = options.resume && !options.output.empty() && std::filesystem::exists(options.output) ? ResultFile::resume(options.output, info) : ResultFile::create(options.output, info);
  if (file.table("devices").rows() == 0) append_devices(file.table("devices"));
  const auto finished = file.finished_keys();
  std::erase_if(cases, [&](const PlannedCase& planned) { return finished.count(planned.test.key()) > 0; });
  std::erase_if(faults, [&](const Fault* fault) { return already_judged(file.table("faults"), *fault); });

  Progress progress(static_cast<int64_t>(cases.size() + faults.size()));
  const auto imbalance = options.shard == 0 && file.table("balance").rows() == 0 ? check_balance(plan.balance, &file) : std::vector<std::string>{};
  for (const auto& line : imbalance) std::cout << "fail    " << line << "\n";
  const auto start = Clock::now();
  for (const auto& planned : cases) {
    const bool late = options.budget > 0 && std::chrono::duration<double>(Clock::now() - start).count() > options.budget;
    if (const std::string reason = late ? "the --budget was used up" : hopeless(file.table("results"), planned.test); !reason.empty()) {
      const CaseReport report{"not_run", reason};
      append_result(file, planned.test, report, nullptr, utc_now(), quoted_repro(options.verb, planned.test));
      continue;
    }
    if (options.isolate || options.timeout > 0) run_isolated(file, planned, options, progress);
    else run_here(file, planned, options, progress);
    file.checkpoint();
  }
  for (const Fault* fault : faults) {
    const FaultReport report = judge_fault(*fault, plan.planted_variant, options.check);
    append_faults(file, report);
    progress.done(report);
    file.checkpoint();
  }
  file.finish("complete");
  if (!options.junit.empty()) write_junit(options.junit, file.data());
  if (!options.json.empty()) write_json(file.data(), options.json);
  std::cout << progress.summary() << "\n" << "results: " << file.path() << "\n";
  const int code = progress.exit_code(options.allow_skip_all);
  return imbalance.empty() ? code : kWrongNumbers;
}

}  // namespace megatoken
