// Closed formulas behind the plan: ZeRO stages, activation bookkeeping, pipeline bubbles, overlap thresholds, ring–Ulysses–USP crossover.
// Each is also a table of `megatoken plan --study`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/plan/request.hpp"

namespace megatoken::plan {

// ---- ZeRO: P parameters, 2 bytes of weight, 2 of gradient, 12 of optimizer state each ------------------------------------------------
/// Bytes of training state on one of `ranks`: 16P, (4 + 12/r)P, (2 + 14/r)P, 16P/r for stages 0 to 3.
int64_t zero_state_bytes(int64_t parameters, int stage, int64_t ranks);
/// Bytes one rank sends per step: an all-reduce of bf16 gradients (stages 0 to 2), three passes of (r−1)/r · 2P for stage 3.
int64_t zero_sent_bytes(int64_t parameters, int stage, int64_t ranks);

// ---- activations -----------------------------------------------------------------------------------------------------------------------
/// Korthikanti's count of one layer without scores: 34·b·t·c/tp; with SwiGLU instead of GeLU: b·t·c(18 + 4·intermediate/c)/tp.
int64_t paper_layer_bytes(int64_t b, int64_t t, int64_t c, int64_t tp);
int64_t swiglu_layer_bytes(int64_t b, int64_t t, int64_t c, int64_t intermediate, int64_t tp);
/// One head's score matrix in bf16: 2t².
int64_t score_bytes(int64_t t);

// ---- pipelines of p stages and m micro-batches; times of one micro-batch in one stage -------------------------------------------------
struct StageTime {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double total() const { return forward + backward_input + backward_weight; }
};
enum class PipelineSchedule { OneForwardOneBackward, Interleaved, ZeroBubble1, ZeroBubble2 };
const char* name_of(PipelineSchedule schedule);
/// Idle time of one stage: (p−1)(F+B+W); /v interleaved; (p−1)(F+B−W); (p−1)(F+B−2W).
double bubble_time(PipelineSchedule schedule, int64_t stages, const StageTime& time, int64_t virtual_stages = 1);
double bubble_over_ideal(PipelineSchedule schedule, int64_t stages, int64_t micro_batches, const StageTime& time = {}, int64_t virtual_stages = 1);
double bubble_over_total(PipelineSchedule schedule, int64_t stages, int64_t micro_batches, const StageTime& time = {}, int64_t virtual_stages = 1);
/// Micro-batches whose activations wait on the first stage: p of 1F1B, all m of GPipe.
int64_t in_flight_micro_batches(int64_t stages, int64_t micro_batches);

// ---- overlap: smallest number of local tokens at which a ring's transfers hide behind its arithmetic, f = hk/h -----------------------
double ring_overlap_tokens(double kv_over_query_heads, double flops_per_second, double bytes_per_second, bool zigzag, bool backward);

// ---- sections of `plan --study` ----------------------------------------------------------------------------------------------------------
struct StudyPoint {
  std::string series;
  double x = 0, y = 0;
};
/// One figure: y over x, a curve per series. A point that cannot exist is left out.
struct Study {
  std::string name, title, x_label, y_label, unit;  // unit of y: "B", "1", "tokens"
  std::vector<StudyPoint> points;
};
std::vector<std::string> study_names();
/// Those that the request's model has the parts for.
std::vector<std::string> study_names(const Request& request);
/// The study of that name for the request's model and GPU; throws for unknown names, with the nearest.
Study run_study(const std::string& name, const Request& request);

/// Longest sequence for each technique on top of those before it, in the order of the report that introduced them: ALST for dense models,
/// SkyRL for models with sparse attention.
struct AblationRow {
  std::string technique;
  int64_t gpus = 0, tokens = 0;
};
std::vector<AblationRow> run_ablation(const Request& request);

}  // namespace megatoken::plan
