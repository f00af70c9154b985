// Puts a plan together; the longest sequence and the cheapest change are found by planning again.
#include "harness/plan/plan.hpp"

#include <functional>
#include <numeric>

#include "reference/core/format.hpp"

namespace megatoken::plan {
namespace {

/// Lengths are multiples of this: what the layout asks for, and whole pools.
int64_t token_unit(const Request& r) {
  const int64_t unit = r.layout.cp * std::lcm<int64_t>(r.layout.tp, r.layout.cp > 1 ? 2 : 1);
  return r.model.sparse ? std::lcm(unit, r.model.sparse->index_pool) : unit;
}

bool fits(const Request& r) { return why_invalid(r).empty() && plan_memory(r).fits(); }

struct Knob {
  const char* what;
  std::function<bool(Request&)> turn;  // false: already there, or it does not apply
};

template <class T>
bool set_to(T& field, T value) {
  if (field == value) return false;
  field = value;
  return true;
}

std::vector<Knob> knobs() {
  return {
      {"recompute attention cores and experts (--recompute selective)",
       [](Request& r) { return r.techniques.recompute == Recompute::None && set_to(r.techniques.recompute, Recompute::Selective); }},
      {"recompute whole layers (--recompute full)", [](Request& r) { return set_to(r.techniques.recompute, Recompute::Full); }},
      {"offload layer inputs (--recompute full --offload inputs)",
       [](Request& r) {
         const bool recompute = set_to(r.techniques.recompute, Recompute::Full), offload = set_to(r.techniques.offload, Offload::Inputs);
         return recompute || offload;
       }},
      {"optimizer state in host memory (--optimizer host)",
       [](Request& r) { return set_to(r.techniques.optimizer, OptimizerPlace::Host); }},
      {"shard optimizer state (--zero 1)", [](Request& r) { return r.techniques.zero < 1 && set_to<int64_t>(r.techniques.zero, 1); }},
      {"shard gradients (--zero 2)", [](Request& r) { return r.techniques.zero < 2 && set_to<int64_t>(r.techniques.zero, 2); }},
      {"shard weights (--zero 3)", [](Request& r) { return set_to<int64_t>(r.techniques.zero, 3); }},
      {"gradients in bf16 (--gradient-bytes 2)", [](Request& r) { return set_to<int64_t>(r.techniques.gradient_bytes, 2); }},
      {"logits in tiles (--loss-rows 1024)", [](Request& r) { return set_to<int64_t>(r.techniques.loss_rows, 1024); }},
      {"mlp in pieces (--mlp-pieces 8)",
       [](Request& r) {
         return r.techniques.mlp_pieces < 8 && r.model.count(Mlp::Dense) > 0 && set_to<int64_t>(r.techniques.mlp_pieces, 8);
       }},
      {"experts in pieces (--expert-pieces 8)",
       [](Request& r) { return r.model.experts && r.techniques.expert_pieces < 8 && set_to<int64_t>(r.techniques.expert_pieces, 8); }},
      {"fused sparse attention (--sparse-kernel fused)",
       [](Request& r) { return r.model.sparse && set_to(r.techniques.sparse_kernel, SparseKernel::Fused); }},
      {"sparse attention in query chunks (--query-chunk 64Ki)",
       [](Request& r) { return r.model.sparse && set_to<int64_t>(r.techniques.query_chunk, 65536); }},
      {"index scores in chunks (--index-elements 512Mi)",
       [](Request& r) { return r.model.sparse && set_to<int64_t>(r.techniques.index_elements, int64_t{1} << 29); }},
      {"cast stream inputs again (without --hyper-fp32)",
       [](Request& r) { return r.techniques.hyper_keeps_fp32 && set_to(r.techniques.hyper_keeps_fp32, false); }},
      {"sum experts in bf16 (without --combine-fp32)",
       [](Request& r) { return r.techniques.combine_fp32 && set_to(r.techniques.combine_fp32, false); }},
      {"drop the router's output after each forward (without --router-leak)",
       [](Request& r) { return r.techniques.router_leak && set_to(r.techniques.router_leak, false); }},
      {"index queries split over tensor-parallel ranks (without --index-replicated)",
       [](Request& r) { return r.model.sparse && set_to(r.techniques.index_sharded, true); }},
      {"twice the context-parallel ranks, half the data-parallel ones",
       [](Request& r) {
         if (r.layout.dp % 2 != 0) return false;
         r.layout.dp /= 2, r.layout.cp *= 2;
         return true;
       }},
      {"twice the tensor-parallel ranks, half the data-parallel ones",
       [](Request& r) {
         if (r.layout.dp % 2 != 0) return false;
         r.layout.dp /= 2, r.layout.tp *= 2;
         return true;
       }},
      {"twice the GPUs, as context-parallel ranks",
       [](Request& r) {
         r.layout.cp *= 2;
         return true;
       }},
  };
}

double seconds_per_token_and_gpu(const Request& r, double step) {
  return step * static_cast<double>(r.layout.gpus()) / static_cast<double>(r.tokens * r.layout.dp * r.micro_batches);
}

}  // namespace

int64_t longest_sequence(const Request& request) {
  const int64_t unit = token_unit(request);
  const auto fits_units = [&](int64_t units) {
    Request r = request;
    r.tokens = units * unit;
    return fits(r);
  };
  if (!fits_units(1)) return 0;
  int64_t low = 1, high = 2;
  constexpr int64_t kMost = int64_t{1} << 31;
  while (high * unit <= kMost && fits_units(high)) low = high, high *= 2;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits_units(middle) ? low : high) = middle;
  }
  return low * unit;
}

std::optional<Change> cheapest_change(const Request& request) {
  const double now = seconds_per_token_and_gpu(request, plan_time(request).step);
  std::optional<Change> best;
  const auto consider = [&](std::string what, const Request& r) {
    if (!fits(r)) return;
    const double step = plan_time(r).step, slowdown = seconds_per_token_and_gpu(r, step) / now;
    if (!best || slowdown < best->slowdown) best = Change{std::move(what), r, step, slowdown};
  };
  const auto all = knobs();
  for (const Knob& knob : all) {
    Request r = request;
    if (knob.turn(r)) consider(knob.what, r);
  }
  if (best) return best;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < all.size(); ++j) {
      Request r = request;
      if (i != j && all[i].turn(r) && all[j].turn(r)) consider(format("{} and {}", all[i].what, all[j].what), r);
    }
  return best;
}

Plan plan_valid(const Request& r) {
  return {.request = r,
          .memory = plan_memory(r),
          .flops = plan_flops(r),
          .traffic = plan_traffic(r),
          .time = plan_time(r),
          .longest = longest_sequence(r),
          .change = {}};
}

Plan make_plan(const Request& request) {
  check_request(request);
  Plan plan = plan_valid(request);
  if (!plan.memory.fits()) plan.change = cheapest_change(request);
  return plan;
}

}  // namespace megatoken::plan
