// Longest sequence per technique, each on top of those before it.
#include <functional>
#include <numeric>

#include "harness/plan/plan.hpp"
#include "harness/plan/study.hpp"

namespace megatoken::plan {
namespace {

struct Step {
  const char* technique;
  std::function<void(Request&)> add;
};

/// Hands all data-parallel ranks to the sequence, as far as the heads allow.
void spread_sequence(Request& r) {
  const int64_t ranks = r.layout.dp;
  for (int64_t cp = ranks; cp >= 1; --cp) {
    if (ranks % cp != 0) continue;
    Request spread = r;
    spread.layout.cp = cp;
    spread.layout.dp = ranks / cp;
    spread.tokens = 2 * cp * r.layout.tp * 64;
    if (!why_invalid(spread).empty()) continue;
    r = spread;
    return;
  }
}

/// The order of the ALST paper: Hugging Face with ZeRO-3 and the optimizer on the host, then one piece at a time.
std::vector<Step> alst_steps() {
  return {
      {"baseline", [](Request& r) {
         r.techniques.zero = 3;
         r.techniques.optimizer = OptimizerPlace::Host;
         r.techniques.recompute = Recompute::Full;
         r.techniques.loss_rows = 0;
         r.scheme = Scheme::Ulysses;
       }},
      {"+ tiled loss", [](Request& r) { r.techniques.loss_rows = 4096; }},
      {"+ Ulysses", spread_sequence},
      {"+ tiled MLP", [](Request& r) { r.techniques.mlp_pieces = 64; }},
      {"+ offload", [](Request& r) { r.techniques.offload = Offload::Inputs; }},
  };
}

/// The order of the SkyRL report, from the out-of-the-box stack.
std::vector<Step> skyrl_steps() {
  return {
      {"baseline", [](Request& r) {
         r.techniques.optimizer = OptimizerPlace::Host;
         r.techniques.recompute = Recompute::Selective;
         r.techniques.sparse_kernel = SparseKernel::Dense;
         r.techniques.index_elements = 0;
         r.techniques.index_sharded = false;
         r.techniques.router_leak = r.techniques.hyper_keeps_fp32 = r.techniques.combine_fp32 = true;
       }},
      {"+ sparse kernel", [](Request& r) { r.techniques.sparse_kernel = SparseKernel::Padded; }},
      {"+ indexer in chunks", [](Request& r) { r.techniques.index_elements = int64_t{1} << 29; }},
      {"+ indexer sharded", [](Request& r) { r.techniques.index_sharded = true; }},
      {"+ full recompute", [](Request& r) { r.techniques.recompute = Recompute::Full; }},
      {"+ router leak fixed", [](Request& r) { r.techniques.router_leak = false; }},
      {"+ offload", [](Request& r) { r.techniques.offload = Offload::Inputs; }},
      {"+ context parallel", spread_sequence},
      {"+ no fp32 copies", [](Request& r) { r.techniques.hyper_keeps_fp32 = r.techniques.combine_fp32 = false; }},
      {"+ experts in pieces", [](Request& r) { r.techniques.expert_pieces = 8; }},
  };
}

Layout starting_layout(const Request& r, int64_t gpus) {
  if (!r.model.experts) return {.dp = gpus};
  // One tensor-parallel group per node, every expert on as few ranks as the number of experts allows.
  const int64_t tp = std::gcd<int64_t>(gpus, 8), etp = gpus > 1 ? 2 : 1;
  return {.tp = tp, .dp = gpus / tp, .ep = std::gcd(gpus / etp, r.model.experts->e), .etp = etp};
}

}  // namespace

std::vector<AblationRow> run_ablation(const Request& request) {
  std::vector<AblationRow> rows;
  const auto steps = request.model.sparse ? skyrl_steps() : alst_steps();
  for (int64_t gpus = 1; gpus <= 64; gpus *= 2) {
    Request r = request;
    r.techniques = Techniques{.working_set_factor = request.techniques.working_set_factor};
    r.layout = starting_layout(r, gpus);
    for (const Step& step : steps) {
      step.add(r);
      rows.push_back({step.technique, gpus, longest_sequence(r)});
    }
  }
  return rows;
}

}  // namespace megatoken::plan
