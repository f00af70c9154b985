// Composes the step from layer tapes. Layers of the same kind share one tape, so a plan runs each tape once.
#include "harness/plan/memory.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "harness/plan/layers.hpp"
#include "reference/core/error.hpp"
#include "reference/model/parameters.hpp"

namespace megatoken::plan {
namespace {

constexpr int64_t kOptimizerBytes = 12;  // fp32 master weight and two moments

struct LayerMemory {
  int64_t saved = 0;  // besides the input, for the backward
  Mark forward, backward;  // inputs included
};

bool keeps_only_inputs(const Request& r) { return r.techniques.recompute == Recompute::Full; }

/// The closed formulas of the papers: attention scores are never kept; under full recompute only the input, and one layer while it runs.
LayerMemory paper_layer(const Request& r) {
  const int64_t unit = r.rows() * r.model.c,
                wide = r.bookkeeping.activations == Activations::Paper ? 34 * unit : 18 * unit + 4 * r.rows() * r.model.intermediate;
  const Mark one{.bytes = layer_input_bytes(r), .where = "a layer"}, all{.bytes = layer_input_bytes(r) + wide, .where = "a layer"};
  return keeps_only_inputs(r) ? LayerMemory{0, one, all} : LayerMemory{wide - layer_input_bytes(r), one, one};
}

LayerMemory measure_layer(const Request& r, LayerConfig layer) {
  if (r.bookkeeping.activations != Activations::Liveness) return paper_layer(r);
  const Tape tape = make_layer(r, layer);
  if (keeps_only_inputs(r)) return {0, tape.forward_mark(), tape.recompute_mark(r.techniques.checkpoint_holds_ends)};
  return {tape.saved_bytes(), tape.keeping_forward_mark(), tape.backward_mark()};
}

struct Fixed {
  int64_t weights = 0, gradients = 0, optimizer = 0, communication = 0, host = 0;
};

/// What does not depend on tokens: the share of ZeRO, and the buffers that hold a gathered unit of weights or gradients.
Fixed fixed_memory(const Request& r, int64_t stage) {
  const Techniques& t = r.techniques;
  const RankParameters p = rank_parameters(r, stage);
  const int64_t dense_ranks = r.layout.dp * r.layout.cp, expert_ranks = r.layout.expert_copies();
  const auto shared = [&](int64_t bytes_per_parameter, bool sharded) {
    return bytes_per_parameter * (sharded ? p.dense / dense_ranks + p.experts / expert_ranks : p.total());
  };
  Fixed f;
  f.weights = shared(kActivationBytes, t.zero >= 3);
  const int64_t gradients = shared(t.gradient_bytes, t.zero >= 2), optimizer = shared(kOptimizerBytes, t.zero >= 1);
  const bool on_host = t.optimizer == OptimizerPlace::Host;
  // A sharded gradient leaves for the host as soon as it is reduced; a whole buffer stays on the GPU until the step.
  const bool gradients_leave = on_host && t.zero >= 2;
  f.gradients = gradients_leave ? 0 : gradients;
  f.optimizer = on_host ? 0 : optimizer;
  f.host = (on_host ? optimizer : 0) + (gradients_leave ? gradients : 0);
  if (t.weights_on_host) f.host += std::exchange(f.weights, 0);
  if (t.zero >= 3) f.communication += 2 * p.largest_unit * kActivationBytes;  // the unit in use and the one being fetched
  if (t.zero >= 2) f.communication += p.largest_unit * t.gradient_bytes;
  f.communication += t.gradient_bucket;
  return f;
}

int64_t host_buffer(const Request& r, int64_t bytes) {
  return r.techniques.pinned_power_of_two ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes))) : bytes;
}

/// One stage's step, kept as categories at the highest moment so far.
class Step {
 public:
  Step(const Request& r, int64_t stage) : r_(r), stage_(stage), fixed_(fixed_memory(r, stage)), input_(layer_input_bytes(r)) {
    const int64_t in_flight = std::min(r.layout.pp - stage, r.micro_batches);  // 1F1B: micro-batches whose activations wait
    earlier_ = in_flight - 1;
    plan_.capacity = r.gpu.capacity();
    plan_.host_capacity = static_cast<int64_t>(r.gpu.host_memory.value / std::min(r.gpu.tray_gpus.value, static_cast<double>(r.layout.gpus())));
    plan_.host = fixed_.host;
  }

  MemoryPlan run() {
    const int64_t count = r_.layers_per_stage(), first = stage_ * count;
    int64_t saved_per_batch = 0;
    for (int64_t i = 0; i < count; ++i) saved_per_batch += kept_for(first + i);
    int64_t kept = earlier_ * saved_per_batch;
    for (int64_t i = 0; i < count; ++i) {
      const LayerMemory& layer = memory_of(first + i);
      kept += input_kept();
      note("forward", first + i, kept + in_transit(std::min(i, r_.techniques.inputs_in_transit)), own(layer.forward), 0, &layer.forward);
      kept += layer.saved;
    }
    if (stage_ == r_.layout.pp - 1) note_loss(kept + in_transit(r_.techniques.inputs_in_transit));
    int64_t leaked = 0;
    for (int64_t i = count - 1; i >= 0; --i) {
      const LayerMemory& layer = memory_of(first + i);
      kept -= layer.saved;
      note("backward", first + i, kept, own(layer.backward) + leaked, 0, &layer.backward);
      kept -= input_kept();
      // The recomputed graph of each expert layer reaches back to the layer's input and that input's gradient.
      if (r_.techniques.router_leak && keeps_only_inputs(r_) && r_.model.layers[first + i].mlp == Mlp::Experts) leaked += 2 * input_;
    }
    if (r_.techniques.offload == Offload::Inputs) plan_.host_inputs = (earlier_ + 1) * count * host_buffer(r_, input_);
    plan_.host += plan_.host_inputs;
    return std::move(plan_);
  }

 private:
  const LayerMemory& memory_of(int64_t layer) {
    const LayerConfig& config = r_.model.layers[layer];
    const int kind = static_cast<int>(config.mixer) * 2 + static_cast<int>(config.mlp);
    auto found = layers_.find(kind);
    if (found == layers_.end()) found = layers_.emplace(kind, measure_layer(r_, config)).first;
    return found->second;
  }
  bool offloads() const { return r_.techniques.offload == Offload::Inputs; }
  int64_t input_kept() const { return offloads() ? 0 : input_; }
  int64_t kept_for(int64_t layer) { return input_kept() + memory_of(layer).saved; }
  /// The layer's own share of its water mark. Its input is already counted where inputs stay on the GPU.
  int64_t own(const Mark& mark) const {
    const int64_t bytes = mark.bytes - input_kept();
    return static_cast<int64_t>(static_cast<double>(bytes) * r_.techniques.working_set_factor);
  }

  int64_t in_transit(int64_t inputs) const { return offloads() ? inputs * input_ : 0; }

  void note_loss(int64_t kept) { note("loss", -1, kept, input_, logits_bytes(r_), nullptr); }

  void note(const char* what, int64_t layer, int64_t kept, int64_t working, int64_t logits, const Mark* mark) {
    const std::array<int64_t, kCategories> now{fixed_.weights, fixed_.gradients, fixed_.optimizer, kept, working, logits, fixed_.communication};
    int64_t total = 0;
    for (size_t i = 0; i < now.size(); ++i) {
      total += now[i];
      plan_.largest[i] = std::max(plan_.largest[i], now[i]);
    }
    std::string where = what;
    if (layer >= 0) {
      const LayerConfig& config = r_.model.layers[layer];
      where = format("{} of layer {} ({}, {})", what, layer, name_of(config.mixer), name_of(config.mlp));
    }
    plan_.timeline.push_back({where, total});
    if (total <= plan_.peak) return;
    plan_.peak = total;
    plan_.categories = now;
    plan_.where = where;
    plan_.working_set = mark ? *mark : Mark{};
    if (layer >= 0) plan_.fattest = r_.model.layers[layer];
  }

  const Request& r_;
  int64_t stage_, earlier_ = 0;
  Fixed fixed_;
  int64_t input_;
  std::map<int, LayerMemory> layers_;
  MemoryPlan plan_;
};

}  // namespace

const char* name_of(Category category) {
  constexpr const char* kNames[kCategories] = {"weights", "grads", "optimizer", "activations", "workspace", "logits", "comm"};
  return kNames[static_cast<int>(category)];
}

RankParameters rank_parameters(const Request& r, int64_t stage) {
  const int64_t tp = r.layout.tp, count = r.layers_per_stage(), first = stage * count, table = r.model.v * r.model.c / tp;
  RankParameters p;
  for (int64_t i = first; i < first + count; ++i) {
    const LayerParameters l = count_layer_parameters(r.model, r.model.layers[i]);
    int64_t dense = 0;
    for (const BlockParameters& block : {l.mixer, l.indexer, l.mlp, l.router, l.norms, l.hyper}) dense += block.split / tp + block.whole;
    const int64_t experts = l.routed / (r.layout.ep * r.layout.etp);
    p.dense += dense;
    p.experts += experts;
    p.largest_unit = std::max(p.largest_unit, dense + experts);
  }
  const bool embeds = stage == 0, predicts = stage == r.layout.pp - 1;
  if (embeds) p.dense += table;
  if (predicts) p.dense += r.model.c + (r.model.tied_embeddings && embeds ? 0 : table);
  if (embeds || predicts) p.largest_unit = std::max(p.largest_unit, table);
  return p;
}

int64_t logits_bytes(const Request& r) {
  // Whole: bf16 logits, fp32 logits turned into log-probabilities, two fp32 gradients on the way back. In tiles: fp32 logits, bf16 gradient.
  constexpr int64_t kWhole = 2 + 4 + 4 + 4, kTiled = 4 + 2;
  const int64_t rows = r.gathered_rows(), tile = r.techniques.loss_rows, columns = r.model.v / r.layout.tp;
  const int64_t hidden = 4 * r.rows() * r.model.c * kActivationBytes + gathered_bytes(r);  // last stream mean, norm, and their gradients
  return (tile == 0 ? rows * kWhole : std::min(tile, rows) * kTiled) * columns + hidden;
}

MemoryPlan plan_memory(const Request& request) {
  MemoryPlan highest;
  for (int64_t stage = 0; stage < request.layout.pp; ++stage) {
    MemoryPlan plan = Step(request, stage).run();
    if (stage == 0 || plan.peak > highest.peak) highest = std::move(plan);
  }
  return highest;
}

}  // namespace megatoken::plan
