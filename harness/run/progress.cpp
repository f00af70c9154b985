#include "harness/run/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "harness/cli/verb.hpp"

namespace megatoken {
namespace {

/// The check closest to its limit, as "dk 0.41 of its limit (full)".
std::string closest(const std::vector<Check>& checks) {
  const Check* worst = nullptr;
  double ratio = -1;
  for (const Check& check : checks)
    if (check.metric != "rule" && check.limit > 0 && check.value / check.limit > ratio) ratio = check.value / check.limit, worst = &check;
  return worst ? format("{} {:.2f} of its limit ({})", worst->output, ratio, worst->strategy) : "";
}

}  // namespace

Progress::Progress(int64_t total) : total_(total), terminal_(isatty(2)) { draw(); }

Progress::~Progress() {
  if (terminal_) std::cerr << "\r\033[K" << std::flush;
}

void Progress::draw() const {
  if (!terminal_ || total_ == 0) return;
  constexpr int kWidth = 30;
  const auto filled = static_cast<int>(kWidth * finished_ / total_);
  std::cerr << "\r\033[K[" << std::string(static_cast<size_t>(filled), '=') << std::string(static_cast<size_t>(kWidth - filled), ' ') << "] " << finished_ << "/" << total_ << std::flush;
}

void Progress::count(const std::string& status) {
  if (terminal_) std::cerr << "\r\033[K" << std::flush;
  ++finished_;
  if (status == "pass") ++passed_;
  else if (status == "fail") ++failed_;
  else if (status == "skipped") ++skipped_;
  else if (status == "timeout") ++timeouts_;
  else if (status == "oom") ++ooms_;
  else ++errors_;
}

void Progress::done(const Case& test, const CaseReport& report, const Timing* timing) {
  count(report.status);
  std::string line = format("{:<8}{}", report.status, test.key());
  if (report.status == "pass") line += "   " + closest(report.checks);
  else line += "   " + report.reason;
  if (timing) line += format("   {} ± {}", format_seconds(timing->summary.median), format_seconds((timing->summary.q75 - timing->summary.q25) / 2));
  std::cout << line << std::endl;
  draw();
}

void Progress::done(const FaultReport& report) {
  count(!report.skipped.empty() ? "skipped" : report.rejected ? "pass" : "fail");
  std::vector<std::string> seen;
  for (const Trial& trial : report.trials)
    if (trial.rejected && std::find(seen.begin(), seen.end(), trial.strategy) == seen.end()) seen.push_back(trial.strategy);
  std::string by;
  for (const auto& strategy : seen) by += (by.empty() ? "" : ", ") + strategy;
  std::cout << format("{:<9}{}   {}", !report.skipped.empty() ? "skipped" : report.rejected ? "rejected" : "MISSED", report.fault->label(),
                      !report.skipped.empty() ? report.skipped : report.rejected ? "by " + by : "no check saw it: " + report.fault->about)
            << std::endl;
  draw();
}

std::string Progress::summary() const {
  std::string text = format("{} passed, {} failed, {} skipped", passed_, failed_, skipped_);
  if (timeouts_) text += format(", {} timed out", timeouts_);
  if (ooms_) text += format(", {} out of memory", ooms_);
  if (errors_) text += format(", {} ended in an error", errors_);
  return text;
}

int Progress::exit_code(bool allow_skip_all) const {
  if (failed_) return kWrongNumbers;
  if (errors_) return kEnvironment;
  // Out of memory and time-outs are results of a sweep; only when nothing else came out are they the run's result.
  if (timeouts_ && passed_ == 0) return kTimeout;
  if (ooms_ && passed_ == 0) return kEnvironment;
  if (passed_ == 0 && skipped_ > 0) return allow_skip_all ? kPassed : kAllSkipped;
  return kPassed;
}

}  // namespace megatoken
