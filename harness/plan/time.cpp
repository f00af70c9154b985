// max(arithmetic, communication) where the two overlap, their sum where they do not.
#include "harness/plan/time.hpp"

#include <algorithm>

#include "harness/plan/memory.hpp"
#include "reference/schemes/balance.hpp"

namespace megatoken::plan {
namespace {

struct Seconds {
  double forward = 0, backward = 0, recompute = 0;
  double total() const { return forward + backward + recompute; }
};

/// Seconds that one rank spends on its share of a component in one sequence.
Seconds component_seconds(const Request& r, const ComponentFlops& c) {
  const double ranks = static_cast<double>(r.layout.tp * r.layout.cp * r.layout.pp);
  double forward_rate = r.gpu.gemm.value, backward_rate = r.gpu.gemm.value, slowest = 1;
  if (c.kernel == Kernel::Attention) {
    forward_rate = r.gpu.attention_forward.value;
    backward_rate = r.gpu.attention_backward.value;
    slowest = attention_imbalance(r);
  }
  if (c.kernel == Kernel::Indexer) forward_rate = r.gpu.attention_forward.value;
  if (std::string_view(c.component) == "experts") slowest = r.techniques.imbalance;
  const auto bound = [&](double flops, double bytes, double rate) {
    return slowest * std::max(flops / rate, bytes / r.gpu.memory_bandwidth.value) / ranks;
  };
  return {bound(c.forward, c.bytes_forward, forward_rate), bound(c.backward, c.bytes_backward, backward_rate),
          bound(c.recompute, c.recompute > 0 ? c.bytes_forward : 0, forward_rate)};
}

/// Arithmetic of one micro-batch that traffic can run beside.
struct Arithmetic {
  double attention = 0, forward = 0, backward = 0, all = 0;
};

/// A ring's blocks move while others are worked on; gradients are reduced while earlier layers run backward; updated weights are gathered
/// while the next forward begins, sharded ones throughout; offload has the whole batch. The optimizer waits for the last gradient.
double hiding_seconds(const TrafficTerm& t, const Arithmetic& a, double repeat) {
  if (!t.overlaps || t.purpose == "optimizer") return 0;
  if (t.purpose == "context parallel") return repeat * a.attention;
  if (t.purpose == "gradients") return a.backward;
  if (t.purpose == "weights" && repeat == 1) return a.forward;
  return repeat * a.all;
}

}  // namespace

double attention_imbalance(const Request& r) {
  if (r.layout.cp == 1 || r.scheme != Scheme::Ring) return 1;  // zig-zag and head splits are balanced; sparse attention shares zig-zag's rows
  return causal_pairs(TokenSplit::Contiguous, r.tokens, r.layout.cp).max_over_mean();
}

TimePlan plan_time(const Request& r) {
  TimePlan plan;
  const auto flops = plan_flops(r);
  const double micro_batches = static_cast<double>(r.micro_batches);
  Arithmetic per_batch;
  for (const auto& c : flops) {
    const Seconds s = component_seconds(r, c);
    per_batch.forward += s.forward;
    per_batch.backward += s.backward;
    per_batch.all += s.total();
    if (c.kernel == Kernel::Attention) per_batch.attention += s.total();
    plan.terms.push_back({c.component, false, micro_batches * s.total(), micro_batches * s.total(), 0});
  }
  plan.compute = micro_batches * per_batch.all;

  for (const TrafficTerm& t : plan_traffic(r)) {
    const bool per_step = t.purpose == "gradients" || t.purpose == "optimizer" || (t.purpose == "weights" && r.techniques.zero < 3);
    const double repeat = per_step ? 1 : micro_batches, busy = repeat * static_cast<double>(t.total()) / t.rate;
    const double exposed = std::max(0.0, busy - hiding_seconds(t, per_batch, repeat));
    plan.exposed += exposed;
    plan.terms.push_back({t.purpose + " (" + t.layer + ", " + name_of(t.link) + ")", true, exposed, busy, static_cast<int64_t>(repeat) * t.total()});
  }
  // 1F1B: p − 1 micro-batches of one stage pass before and after all stages work.
  plan.bubble = (plan.compute + plan.exposed) / micro_batches * static_cast<double>(r.layout.pp - 1);
  plan.step = plan.compute + plan.exposed + plan.bubble;
  if (plan.bubble > 0) plan.terms.push_back({"pipeline bubble", false, plan.bubble, plan.bubble, 0});
  plan.tokens_per_second = static_cast<double>(r.tokens * r.layout.dp) * micro_batches / plan.step;
  const double ranks = static_cast<double>(r.layout.tp * r.layout.cp * r.layout.pp);
  plan.flops = micro_batches * total_flops(flops) / ranks;
  plan.mfu = micro_batches * model_flops(flops) / ranks / plan.step / r.gpu.bf16_peak.value;
  return plan;
}

}  // namespace megatoken::plan
