// Memory of one rank over a training step: what is always there, what grows through the forward, and the layer being worked on.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/plan/request.hpp"
#include "harness/plan/tape.hpp"

namespace megatoken::plan {

/// The memory categories of a result file. Inputs ("activations"): what waits for its backward. WorkingSet ("workspace"): the layer that runs.
enum class Category { Weights, Gradients, Optimizer, Inputs, WorkingSet, Logits, Communication };
inline constexpr int kCategories = 7;
const char* name_of(Category category);

struct MemoryMoment {
  std::string where;   // "backward of layer 43 (sparse_attention, experts)"
  int64_t bytes = 0;
};

struct MemoryPlan {
  std::array<int64_t, kCategories> categories{};  // at the peak; they add up to it
  std::array<int64_t, kCategories> largest{};     // each by itself, over the step
  int64_t peak = 0;
  std::string where;                              // of the peak
  Mark working_set;                               // the fattest layer's water mark, by part and with the operation
  LayerConfig fattest;
  int64_t host = 0;                               // host memory per GPU: optimizer state and offloaded inputs
  int64_t host_inputs = 0;
  int64_t capacity = 0, host_capacity = 0;
  std::vector<MemoryMoment> timeline;             // one entry per layer and direction

  bool fits_gpu() const { return peak <= capacity; }
  bool fits_host() const { return host <= host_capacity; }
  bool fits() const { return fits_gpu() && fits_host(); }
};

/// With several pipeline stages: the stage with the highest peak.
MemoryPlan plan_memory(const Request& request);

/// Parameters on one rank of the first stage that holds everything its stage needs, before ZeRO.
struct RankParameters {
  int64_t dense = 0;    // shared by the ranks of dp·cp
  int64_t experts = 0;  // shared by expert_copies() ranks
  int64_t largest_unit = 0;  // the most that is gathered at once when weights are sharded: a layer, or the embedding
  int64_t total() const { return dense + experts; }
};
RankParameters rank_parameters(const Request& request, int64_t stage);

/// Bytes of logits and their gradients while the loss runs, with the rows of hidden state around them.
int64_t logits_bytes(const Request& request);

}  // namespace megatoken::plan
