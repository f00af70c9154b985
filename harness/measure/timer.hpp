// Times one case: wall clock on the CPU, CUDA events on a GPU, the slowest rank under a scheme.
#pragma once
#include <string>
#include <vector>

#include "harness/check/subject.hpp"
#include "harness/measure/statistics.hpp"

namespace megatoken {

struct Timing {
  std::vector<double> samples;  // seconds, every one kept
  Summary summary;
  std::string stop_reason;
  int64_t peak_bytes = -1;      // host memory this process added at the peak of a call (CPU), device memory allocated (GPU)
};

/// Warms up (at least one call; three calls or half a second when calls are short), then samples until the rule stops.
/// `phase` Backward times backward alone, after one forward. Throws what the variant throws.
Timing time_subject(const Subject& subject, const Problem& problem, Phase phase, const StopRule& rule);

/// Seconds of one call on the GPU between two events on one stream (CUDA builds only).
double gpu_call_seconds(const std::function<void(void* stream)>& call);

/// Resident memory of this process, and its highest value since reset_peak_memory(). Bytes; Linux.
int64_t resident_memory();
int64_t peak_memory();
void reset_peak_memory();

}  // namespace megatoken
