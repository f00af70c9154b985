// The sections of `plan --study`: each formula over a range, for the model and GPU at hand.
#include <algorithm>

#include "harness/plan/layers.hpp"
#include "harness/plan/study.hpp"
#include "reference/core/error.hpp"
#include "reference/core/names.hpp"
#include "reference/model/parameters.hpp"

namespace megatoken::plan {
namespace {

constexpr int64_t kMostRanks = 1024;

double d(int64_t value) { return static_cast<double>(value); }

Study bubbles(const Request& r) {
  const int64_t stages = r.layout.pp > 1 ? r.layout.pp : 8;
  Study study{"bubbles", format("idle part of a pipeline of {} stages, F = B = W", stages), "micro-batches", "idle part of the step", "1",
              {}};
  for (int64_t m = stages; m <= 32 * stages; m *= 2)
    for (auto schedule : {PipelineSchedule::OneForwardOneBackward, PipelineSchedule::Interleaved, PipelineSchedule::ZeroBubble1,
                          PipelineSchedule::ZeroBubble2})
      study.points.push_back({schedule == PipelineSchedule::Interleaved ? "interleaved, 4" : name_of(schedule), d(m),
                              bubble_over_total(schedule, stages, m, {}, 4)});
  return study;
}

Study zero_stages(const Request& r, bool sent) {
  Study study{sent ? "zero_sent" : "zero_state",
              sent ? "bytes sent per step by ZeRO stage" : "training state per rank by ZeRO stage",
              "data-parallel ranks",
              sent ? "bytes sent by one rank" : "bytes on one rank",
              "B",
              {}};
  const int64_t parameters = count_parameters(r.model).text();
  for (int64_t ranks = 1; ranks <= kMostRanks; ranks *= 2)
    for (int stage = 0; stage <= 3; ++stage)
      study.points.push_back({format("ZeRO-{}", stage), d(ranks),
                              d(sent ? zero_sent_bytes(parameters, stage, ranks) : zero_state_bytes(parameters, stage, ranks))});
  return study;
}

const AttentionConfig& softmax_heads(const Request& r, const std::string& study) {
  if (!r.model.attention)
    throw Error(ErrorKind::Usage, format("study {}: model {} has no softmax attention with key/value heads", study, r.model.name),
                "try --model qwen3x_27b");
  return *r.model.attention;
}

Study overlap(const Request& r) {
  const AttentionConfig& a = softmax_heads(r, "overlap");
  Study study{"overlap",
              format("local tokens from which a ring hides its transfers, {:.0f} TFLOP/s", r.gpu.attention_forward.value / 1e12),
              "link, GB/s per direction",
              "local tokens",
              "tokens",
              {}};
  const double f = d(a.hk) / d(a.h), flops = r.gpu.attention_forward.value;
  for (double rate : {1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 450.0, 900.0})
    for (bool zigzag : {true, false})
      for (bool backward : {false, true})
        study.points.push_back({format("{} {}", zigzag ? "zig-zag" : "not causal,", backward ? "backward" : "forward"), rate,
                                ring_overlap_tokens(f, flops, rate * 1e9, zigzag, backward)});
  return study;
}

Study crossover(const Request& r) {
  const AttentionConfig& a = softmax_heads(r, "crossover");
  Study study{"crossover",
              format("bytes sent per layer and rank, forward, {} tokens", format_count(r.tokens)),
              "context-parallel ranks",
              "bytes sent by one rank",
              "B",
              {}};
  for (int64_t ranks = 2; ranks <= 64; ranks *= 2) {
    const AttentionTraffic wire{1, r.tokens / ranks, a.h, a.hk, a.d, kActivationBytes, 4};
    study.points.push_back({"ring", d(ranks), d(ring_forward_bytes(wire, ranks))});
    if (a.h % ranks == 0 && ulysses_kv_heads(a.hk, ranks) > 0)
      study.points.push_back({"Ulysses", d(ranks), d(ulysses_bytes(wire, ranks).forward)});
    int64_t best = ring_forward_bytes(wire, ranks);
    for (int64_t u = 2; u <= ranks; u *= 2)
      if (a.h % u == 0 && ranks % u == 0 && ulysses_kv_heads(a.hk, u) > 0)
        best = std::min(best, usp_bytes(wire, u, ranks / u).total().forward);
    study.points.push_back({"USP, best", d(ranks), d(best)});
  }
  return study;
}

Study activations(const Request& request) {
  Study study{"activations", "what waits for its backward on one GPU, by way of counting", "tokens", "bytes", "B", {}};
  const int64_t layers = static_cast<int64_t>(request.model.layers.size()), c = request.model.c, tp = request.layout.tp;
  Request r = request;
  r.layout.cp = 1;
  for (int64_t t = 4096; t <= std::max<int64_t>(request.tokens, 262144); t *= 2) {
    r.tokens = t;
    r.techniques.recompute = Recompute::None;
    int64_t kept = layers * layer_input_bytes(r);
    for (const LayerConfig& layer : r.model.layers) kept += make_layer(r, layer).saved_bytes();
    study.points.push_back({"kept, by liveness", d(t), d(kept)});
    study.points.push_back({"kept, paper: 34·t·c", d(t), d(layers * paper_layer_bytes(1, t, c, tp))});
    study.points.push_back({"kept, SwiGLU", d(t), d(layers * swiglu_layer_bytes(1, t, c, r.model.intermediate, tp))});
    study.points.push_back({"layer inputs only", d(t), d(layers * layer_input_bytes(r))});
  }
  return study;
}

}  // namespace

std::vector<std::string> study_names() { return {"activations", "bubbles", "crossover", "overlap", "zero_sent", "zero_state"}; }

std::vector<std::string> study_names(const Request& r) {
  auto names = study_names();
  if (!r.model.attention) std::erase_if(names, [](const auto& name) { return name == "crossover" || name == "overlap"; });
  return names;
}

Study run_study(const std::string& name, const Request& r) {
  if (name == "activations") return activations(r);
  if (name == "bubbles") return bubbles(r);
  if (name == "crossover") return crossover(r);
  if (name == "overlap") return overlap(r);
  if (name == "zero_sent") return zero_stages(r, true);
  if (name == "zero_state") return zero_stages(r, false);
  throw_unknown_name("study", name, study_names());
}

}  // namespace megatoken::plan
