// What a person sees while cases run: one line a case on stdout, a bar on stderr only when that is a terminal.
#pragma once
#include <string>

#include "harness/check/checker.hpp"
#include "harness/check/planted.hpp"
#include "harness/measure/timer.hpp"

namespace megatoken {

class Progress {
 public:
  explicit Progress(int64_t total);
  ~Progress();
  void done(const Case& test, const CaseReport& report, const Timing* timing);
  void done(const FaultReport& report);
  /// "214 passed, 0 failed, 12 skipped", then the number of other ends.
  std::string summary() const;
  int exit_code(bool allow_skip_all) const;
  int64_t failed() const { return failed_; }

 private:
  void count(const std::string& status);
  void draw() const;
  int64_t total_, finished_ = 0, passed_ = 0, failed_ = 0, skipped_ = 0, errors_ = 0, timeouts_ = 0, ooms_ = 0;
  bool terminal_;
};

}  // namespace megatoken
