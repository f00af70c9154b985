// Time of a training step: arithmetic at the GPU's sustained rates, communication at its link rates, and what of it is not hidden.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/plan/flops.hpp"
#include "harness/plan/traffic.hpp"

namespace megatoken::plan {

struct TimeTerm {
  std::string name;       // component or purpose
  bool communication = false;
  double seconds = 0;     // added to the step; for communication only the exposed part
  double busy = 0;        // how long it runs, hidden or not
  int64_t bytes = 0;      // sent by one rank
};

struct TimePlan {
  std::vector<TimeTerm> terms;
  double step = 0;                 // seconds
  double compute = 0, exposed = 0, bubble = 0;
  double tokens_per_second = 0;    // all GPUs
  double flops = 0;                // of one GPU, all micro-batches
  double mfu = 0;                  // model FLOPs over peak
};

TimePlan plan_time(const Request& request);

/// Slowest rank over mean rank of the causal pairs that the request's scheme gives each rank.
double attention_imbalance(const Request& request);

}  // namespace megatoken::plan
