// Arithmetic of a training step by component, for one sequence over all ranks. A multiplication and an addition are two FLOPs.
#pragma once
#include <cstdint>
#include <vector>

#include "harness/plan/request.hpp"

namespace megatoken::plan {

/// What limits a component's time.
enum class Kernel { Gemm, Attention, Indexer, Recurrence, Streams };

struct ComponentFlops {
  const char* component;
  Kernel kernel;
  double forward = 0, backward = 0, recompute = 0;  // FLOPs of one sequence, summed over layers and ranks
  double bytes_forward = 0, bytes_backward = 0;     // memory traffic of the components that are bound by it, likewise
  double total() const { return forward + backward + recompute; }
};

std::vector<ComponentFlops> plan_flops(const Request& request);
double total_flops(const std::vector<ComponentFlops>& components);
/// Without recompute and replicated work: what the model needs, the numerator of model FLOPs utilisation.
double model_flops(const std::vector<ComponentFlops>& components);

/// (query, pool) pairs an indexer scores and (query, key) pairs the sparse attention reads over one causal document, exactly.
int64_t indexed_pairs(int64_t tokens, int64_t pool);
int64_t selected_pairs(int64_t tokens, const SparseAttentionConfig& sparse);
/// t(t+1)/2.
int64_t causal_pair_count(int64_t tokens);

}  // namespace megatoken::plan
