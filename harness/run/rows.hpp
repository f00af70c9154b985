// From reports to rows of the result file.
#pragma once
#include "harness/check/checker.hpp"
#include "harness/check/planted.hpp"
#include "harness/measure/timer.hpp"
#include "harness/store/result_file.hpp"

namespace megatoken {

/// What the cost model says before a case runs.
struct Prediction {
  double flops = 0;
  int64_t bytes = 0;       // least memory traffic
  int64_t memory = 0;      // tensors of the case and workspace
  int64_t sent = -1;       // over the communicator, all ranks; −1 without a scheme
};
Prediction predict(const Case& test);

/// Row of /results with its checks and samples; `timing` may be null.
int64_t append_result(ResultFile& file, const Case& test, const CaseReport& report, const Timing* timing, const std::string& started, const std::string& repro);
void append_faults(ResultFile& file, const FaultReport& report);
/// Copies all rows of another file (an isolated case) into this one; row numbers are adjusted.
void merge_rows(ResultFile& file, const ResultReader& other);

}  // namespace megatoken
