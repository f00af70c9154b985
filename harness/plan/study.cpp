// The formulas of study.hpp.
#include "harness/plan/study.hpp"

#include <algorithm>

#include "reference/core/error.hpp"

namespace megatoken::plan {
namespace {

constexpr int64_t kWeight = 2, kGradient = 2, kOptimizer = 12;

}  // namespace

int64_t zero_state_bytes(int64_t parameters, int stage, int64_t ranks) {
  MEGATOKEN_CHECK(stage >= 0 && stage <= 3, "ZeRO stage {}: there are stages 0 to 3", stage);
  int64_t whole = kWeight + kGradient + kOptimizer, sharded = 0;
  const int64_t parts[] = {kOptimizer, kGradient, kWeight};
  for (int i = 0; i < stage; ++i) whole -= parts[i], sharded += parts[i];
  return whole * parameters + sharded * parameters / ranks;
}

int64_t zero_sent_bytes(int64_t parameters, int stage, int64_t ranks) {
  const int64_t bytes = kWeight * parameters;
  if (stage < 3) return all_reduce_bytes(bytes, ranks);
  return 2 * all_gather_bytes(bytes, ranks) + reduce_scatter_bytes(bytes, ranks);
}

int64_t paper_layer_bytes(int64_t b, int64_t t, int64_t c, int64_t tp) { return 34 * b * t * c / tp; }

int64_t swiglu_layer_bytes(int64_t b, int64_t t, int64_t c, int64_t intermediate, int64_t tp) { return b * t * (18 * c + 4 * intermediate) / tp; }

int64_t score_bytes(int64_t t) { return 2 * t * t; }

const char* name_of(PipelineSchedule schedule) {
  constexpr const char* kNames[] = {"1F1B", "interleaved", "ZB-H1", "ZB-H2"};
  return kNames[static_cast<int>(schedule)];
}

double bubble_time(PipelineSchedule schedule, int64_t stages, const StageTime& t, int64_t virtual_stages) {
  const double waits = static_cast<double>(stages - 1);
  switch (schedule) {
    case PipelineSchedule::OneForwardOneBackward: return waits * t.total();
    case PipelineSchedule::Interleaved: return waits * t.total() / static_cast<double>(virtual_stages);
    case PipelineSchedule::ZeroBubble1: return waits * std::max(0.0, t.forward + t.backward_input - t.backward_weight);
    case PipelineSchedule::ZeroBubble2: return waits * std::max(0.0, t.forward + t.backward_input - 2 * t.backward_weight);
  }
  return 0;
}

double bubble_over_ideal(PipelineSchedule schedule, int64_t stages, int64_t micro_batches, const StageTime& time, int64_t virtual_stages) {
  return bubble_time(schedule, stages, time, virtual_stages) / (static_cast<double>(micro_batches) * time.total());
}

double bubble_over_total(PipelineSchedule schedule, int64_t stages, int64_t micro_batches, const StageTime& time, int64_t virtual_stages) {
  const double ideal = bubble_over_ideal(schedule, stages, micro_batches, time, virtual_stages);
  return ideal / (1 + ideal);
}

int64_t in_flight_micro_batches(int64_t stages, int64_t micro_batches) { return std::min(stages, micro_batches); }

double ring_overlap_tokens(double f, double flops_per_second, double bytes_per_second, bool zigzag, bool backward) {
  // Zig-zag forward: 2n²·d·h FLOPs against 4n·hk·d bytes. Contiguous, not causal: twice the arithmetic for the same bytes.
  // Backward: 2.5 times the arithmetic against bf16 k, v and fp32 dk, dv, three times the bytes.
  const double tokens = (zigzag ? 2 : 1) * f * flops_per_second / bytes_per_second;
  return backward ? tokens * 3 / 2.5 : tokens;
}

}  // namespace megatoken::plan
