#include "harness/check/checker.hpp"

#include <algorithm>
#include <chrono>
#include <new>

#include "harness/check/strategies.hpp"

namespace megatoken {
namespace {

void append(Checks& all, Checks more) { all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end())); }

bool full_is_affordable(const Case& test, const CheckOptions& options) {
  const Component& component = find_component(test.component);
  return !component.cost || component.cost(test.axes, test.dtype, test.phase).flops <= options.full_flops;
}

/// Strategies that fit the case: everything when small; samples and short runs when the oracle would be too slow.
std::vector<std::string> fitting_strategies(const Case& test, const CheckOptions& options) {
  if (!options.strategies.empty()) return options.strategies;
  if (test.distribution == "exact") return {"hygiene", "exact", "repeat", "ledger"};
  const bool full = full_is_affordable(test, options);
  std::vector<std::string> names{"hygiene", "ledger"};
  if (full) names.push_back("full");
  else names.insert(names.end(), {"rows", "cols", "scan"});
  if (!test.scheme.empty()) {
    if (full) names.push_back("shards");
  } else {
    names.insert(names.end(), {"prefix", "shift"});
  }
  names.push_back("repeat");
  return names;
}

void run_strategies(const Evidence& evidence, const CheckOptions& options, CaseReport& report) {
  const auto names = fitting_strategies(evidence.test, options);
  const auto wanted = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  Checks& checks = report.checks;
  if (wanted("hygiene")) append(checks, check_hygiene(evidence));
  if (wanted("ledger")) append(checks, check_ledger(evidence));
  if (wanted("full")) append(checks, check_full(evidence));
  if (wanted("exact") && evidence.test.distribution == "exact") append(checks, check_exact(evidence));
  for (const Slice& slice : evidence.problem.component().slices)
    if (wanted(slice.strategy.c_str())) append(checks, check_slice(evidence, slice, options.samples, options.full_flops));
  if (wanted("prefix")) append(checks, check_prefix(evidence));
  if (wanted("shift")) append(checks, check_shift(evidence));
  if (wanted("shards")) append(checks, check_shards(evidence));
  if (wanted("repeat")) {
    bool deterministic = true;
    append(checks, check_repeat(evidence, options.repeat_calls, deterministic));
    report.deterministic = deterministic;
  }
}

}  // namespace

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names{"hygiene", "ledger", "full", "exact", "rows", "cols", "scan", "prefix", "shift", "shards", "repeat"};
  return names;
}

std::vector<std::string> affordable_strategies(const Case& test, const CheckOptions& options) {
  std::vector<std::string> names = strategy_names();
  if (!full_is_affordable(test, options)) std::erase_if(names, [](const auto& name) { return name == "full" || name == "exact" || name == "shards"; });
  return names;
}

CaseReport check_case(const Case& test, const CheckOptions& options) { return check_subject(Subject::of(test, options.threads), test, options); }

CaseReport check_subject(const Subject& subject, const Case& given, const CheckOptions& options) {
  Case test = given;
  if (test.phase == Phase::Backward) test.phase = Phase::Both;  // backward reads what forward wrote; only timing takes them apart
  const auto start = std::chrono::steady_clock::now();
  CaseReport report;
  try {
    if (std::string reason = subject.unsupported(test.axes, test.dtype, test.phase); !reason.empty()) {
      report.status = "skipped";
      report.reason = reason;
      return report;
    }
    Problem problem(*subject.component, test.axes, test.dtype);
    problem.fill(test.distribution, test.seed, options.tokens);
    if (test.distribution == "tokens") report.tokens = options.token_label ? options.token_label(test.seed) : "synthetic";
    const SubjectRun run = run_subject(subject, problem, test.phase);
    for (const Ledger& ledger : run.ledgers) report.sent_bytes = std::max<int64_t>(report.sent_bytes, 0) + ledger.sent();
    if (subject.scheme && subject.scheme->bytes_sent) {
      report.predicted_bytes = 0;
      for (Phase phase : {Phase::Forward, Phase::Backward})
        if (test.phase == Phase::Both || test.phase == phase)
          report.predicted_bytes += subject.ranks * subject.scheme->bytes_sent(*subject.component, test.axes, test.dtype, subject.ranks, phase);
    }
    run_strategies({subject, test, problem, run, options.tolerances, options.threads, options.tokens}, options, report);
    const auto failed = std::find_if(report.checks.begin(), report.checks.end(), [](const Check& c) { return !c.passed; });
    report.status = failed != report.checks.end() ? "fail" : report.checks.empty() ? "skipped" : "pass";
    if (failed != report.checks.end()) report.reason = describe(*failed);
    else if (report.checks.empty()) report.reason = "no strategy fits this case";
  } catch (const std::bad_alloc&) {
    report.status = "oom";
    report.reason = "out of memory";
  } catch (const Error& error) {
    report.status = error.message().rfind("out of memory", 0) == 0 ? "oom" : error.kind() == ErrorKind::Timeout ? "timeout" : "error";
    report.reason = error.what();
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace megatoken
