// A plan: memory, arithmetic, traffic and time of one training step, the longest sequence that fits, and the cheapest change that would
// make a plan fit that does not.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/memory.hpp"
#include "harness/plan/time.hpp"

namespace megatoken::plan {

struct Change {
  std::string what;     // "offload layer inputs (--offload inputs)"
  Request request;      // with the change made
  double step = 0;      // seconds per step, and what that is over the present plan
  double slowdown = 1;  // per token and GPU
};

struct Plan {
  Request request;
  MemoryPlan memory;
  std::vector<ComponentFlops> flops;
  std::vector<TrafficTerm> traffic;
  TimePlan time;
  int64_t longest = 0;              // tokens of the longest sequence that fits with this layout; 0 when none does
  std::optional<Change> change;     // only when the plan does not fit
};

/// Checks the request and plans it; looks for the cheapest change when it does not fit.
Plan make_plan(const Request& request);
/// Everything but the change, for a request that is known to be valid.
Plan plan_valid(const Request& request);

/// Longest valid sequence whose plan fits GPU and host memory, 0 when not even the shortest does.
int64_t longest_sequence(const Request& request);

/// The single change, or pair of changes, that makes the plan fit at the least loss of tokens per second and GPU.
std::optional<Change> cheapest_change(const Request& request);

struct SearchSpace {
  int64_t gpus = 1;
  int64_t max_pp = 1;       // pipeline stages up to this
  size_t keep = 10;         // plans to return
};

struct SearchResult {
  std::vector<Plan> best;   // the fastest fitting techniques of each layout and scheme, most tokens per second first
  int64_t considered = 0;   // valid layouts and techniques looked at
  int64_t fitting = 0;
  std::optional<Plan> nearest;  // when none fits: the one with the lowest peak
};

/// Tries layouts (tp, cp, dp, ep, etp), schemes and techniques for the request's model, tokens and GPU.
SearchResult search_layouts(const Request& request, const SearchSpace& space);

}  // namespace megatoken::plan
