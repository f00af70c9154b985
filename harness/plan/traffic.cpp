// One term per purpose and layer type, for a rank of the first pipeline stage. Ranks are numbered tp fastest, then cp, dp, pp; expert ranks etp fastest, then ep.
#include "harness/plan/traffic.hpp"

#include <algorithm>

#include "harness/plan/layers.hpp"
#include "harness/plan/memory.hpp"
#include "reference/schemes/traffic.hpp"

namespace megatoken::plan {
namespace {

constexpr int64_t B = kActivationBytes;

class Terms {
 public:
  explicit Terms(const Request& r) : r_(r), recomputes_(r.techniques.recompute == Recompute::Full) {}

  /// A collective of a layer type over `size` ranks that are `stride` apart. Under full recompute its forward runs twice.
  void layer(const char* purpose, std::string_view type, int64_t layers, int64_t size, int64_t stride, DirectionBytes bytes,
             bool overlaps = false) {
    if (layers == 0 || bytes.total() == 0) return;
    push(purpose, std::string(type), layers, size, stride, {bytes.forward, recomputes_ ? bytes.forward : 0, bytes.backward}, overlaps);
  }
  void step(const char* purpose, int64_t size, int64_t stride, int64_t forward, int64_t backward, bool overlaps) {
    if (forward + backward == 0) return;
    push(purpose, "step", 1, size, stride, {forward, 0, backward}, overlaps);
  }
  void host(const char* purpose, int64_t layers, int64_t out, int64_t in) {
    if (out + in == 0) return;
    all_.push_back({.purpose = purpose,
                    .layer = "step",
                    .link = Link::Host,
                    .rate = r_.gpu.host_link.value,
                    .layers = layers,
                    .forward = out,
                    .backward = in,
                    .overlaps = true});
  }
  std::vector<TrafficTerm> take() { return std::move(all_); }

 private:
  struct Three {
    int64_t forward, recompute, backward;
  };
  void push(const char* purpose, std::string type, int64_t layers, int64_t size, int64_t stride, Three bytes, bool overlaps) {
    const double rate = r_.gpu.rate_between(size, stride);
    all_.push_back({.purpose = purpose, .layer = std::move(type), .link = rate == r_.gpu.link.value ? Link::Domain : Link::Network, .rate = rate,
                    .layers = layers, .forward = bytes.forward, .recompute = bytes.recompute, .backward = bytes.backward, .overlaps = overlaps});
  }
  const Request& r_;
  bool recomputes_;
  std::vector<TrafficTerm> all_;
};

/// One block of tensor parallelism: a gather before it and a scatter after it, in the backward the reverse, and one more gather of the saved
/// rows for the weight gradients. Two all-reduces of the block's output, one per direction, send as much as the nominal four.
DirectionBytes gather_and_scatter(const Request& r, int64_t in, int64_t out) {
  return {in + out, r.bookkeeping.tensor_parallel == TensorParallel::Regather ? 2 * in + out : in + out};
}

/// The model as the first pipeline stage sees it: what a rank of that stage sends.
ModelConfig first_stage(const Request& r) {
  ModelConfig stage = r.model;
  stage.layers.resize(static_cast<size_t>(r.layers_per_stage()));
  return stage;
}

void add_tensor_parallel(Terms& terms, const Request& r) {
  const ModelConfig m = first_stage(r);
  const int64_t tp = r.layout.tp, rows = r.gathered_rows(), unit = tensor_parallel_unit_bytes(1, rows, m.c, B, tp);
  for (Mixer mixer : {Mixer::Attention, Mixer::Kda, Mixer::GatedDelta})
    terms.layer("tensor parallel", name_of(mixer), m.count(mixer), tp, 1, gather_and_scatter(r, unit, unit));
  if (m.sparse) {
    const int64_t latents = tensor_parallel_unit_bytes(1, rows, m.sparse->query_rank + m.sparse->latent, B, tp);
    terms.layer("tensor parallel", name_of(Mixer::SparseAttention), m.count(Mixer::SparseAttention), tp, 1, gather_and_scatter(r, latents, unit));
    const int64_t ids = r.techniques.index_sharded ? all_gather_bytes(rows * (m.sparse->index_topk / m.sparse->index_pool) * 4, tp) : 0;
    terms.layer("index ids", name_of(Mixer::SparseAttention), m.count(Mixer::SparseAttention), tp, 1, {ids, 0});
  }
  terms.layer("tensor parallel", name_of(Mlp::Dense), m.count(Mlp::Dense), tp, 1, gather_and_scatter(r, unit, unit));
  if (m.experts && m.experts->shared > 0)
    terms.layer("tensor parallel", "shared expert", m.count(Mlp::Experts), tp, 1, gather_and_scatter(r, unit, unit));
}

void add_context_parallel(Terms& terms, const Request& r) {
  const ModelConfig m = first_stage(r);
  const int64_t cp = r.layout.cp, tp = r.layout.tp;
  if (cp == 1) return;
  if (m.attention) {
    const SchemeBytes bytes = attention_scheme_bytes(r);
    const bool ring = r.scheme == Scheme::Ring || r.scheme == Scheme::Zigzag;
    terms.layer("context parallel", name_of(Mixer::Attention), m.count(Mixer::Attention), cp, tp, {bytes.forward, bytes.backward}, ring);
  }
  if (m.sparse) {  // latents, index keys and pool gates of every rank; the latents' gradients come back
    const int64_t latents = all_gather_bytes(r.tokens * m.sparse->latent * B, cp),
                  index = all_gather_bytes(2 * r.tokens * m.sparse->index_d * B, cp);
    const int64_t gradients = reduce_scatter_bytes(r.tokens * m.sparse->latent * r.bookkeeping.wire_gradient_bytes, cp);
    terms.layer("context parallel", name_of(Mixer::SparseAttention), m.count(Mixer::SparseAttention), cp, tp, {latents + index, gradients});
  }
  for (Mixer mixer : {Mixer::Kda, Mixer::GatedDelta}) {
    if (m.count(mixer) == 0) continue;
    const int64_t in = delta_exchange_bytes(r, r.delta_exchange);
    const int64_t heads_rows = r.gathered_rows() * (m.delta->h / tp) * m.delta->dv * B;
    const int64_t out = r.delta_exchange == DeltaExchange::State ? 0 : all_to_all_bytes(heads_rows, cp);
    terms.layer("context parallel", name_of(mixer), m.count(mixer), cp, tp, {in + out, in + out});
  }
}

void add_experts(Terms& terms, const Request& r) {
  if (!r.model.experts) return;
  const ExpertsConfig& e = *r.model.experts;
  const int64_t layers = first_stage(r).count(Mlp::Experts), ep = r.layout.ep, etp = r.layout.etp;
  const int64_t one_way = expert_dispatch_bytes(r.rows(), e.per_token, ep, r.model.c, B);
  // Of the other ep − 1 ranks some sit in the same NVLink domain; their rows do not touch the network.
  const int64_t near = std::min<int64_t>(ep, std::max<int64_t>(1, static_cast<int64_t>(r.gpu.node_gpus.value) / etp));
  const int64_t far_bytes = ep > near ? one_way * (ep - near) / (ep - 1) : 0, near_bytes = one_way - far_bytes;
  terms.layer("experts", name_of(Mlp::Experts), layers, near, etp, {2 * near_bytes, 2 * near_bytes});
  terms.layer("experts", name_of(Mlp::Experts), layers, ep, etp, {2 * far_bytes, 2 * far_bytes});
  const int64_t sum_bytes = r.techniques.combine_fp32 ? 4 : B, buffer = r.rows() * e.per_token * etp * r.model.c;
  const int64_t copies = all_gather_bytes(buffer * B, etp), sums = reduce_scatter_bytes(buffer * sum_bytes, etp);
  terms.layer("expert copies", name_of(Mlp::Experts), layers, etp, 1, {copies + sums, copies + sums});
}

void add_data_parallel(Terms& terms, const Request& r) {
  const RankParameters p = rank_parameters(r, 0);
  const int64_t dense_ranks = r.layout.dp * r.layout.cp, expert_ranks = r.layout.expert_copies();
  const struct {
    int64_t parameters, ranks, stride;
  } groups[] = {{p.dense, dense_ranks, r.layout.tp}, {p.experts, expert_ranks, r.layout.ep * r.layout.etp}};
  for (const auto& g : groups) {
    const int64_t gradients = g.parameters * r.techniques.gradient_bytes, weights = g.parameters * B;
    if (r.techniques.zero == 0) terms.step("gradients", g.ranks, g.stride, 0, all_reduce_bytes(gradients, g.ranks), true);
    else terms.step("gradients", g.ranks, g.stride, 0, reduce_scatter_bytes(gradients, g.ranks), true);
    const int64_t gather = all_gather_bytes(weights, g.ranks);
    if (r.techniques.zero == 3) terms.step("weights", g.ranks, g.stride, gather, gather, true);
    else if (r.techniques.zero > 0) terms.step("weights", g.ranks, g.stride, gather, 0, true);
  }
}

}  // namespace

const char* name_of(Link link) {
  constexpr const char* kNames[] = {"link", "network", "host"};
  return kNames[static_cast<int>(link)];
}

SchemeBytes attention_scheme_bytes(const Request& r) {
  const AttentionConfig& a = *r.model.attention;
  const int64_t cp = r.layout.cp, tp = r.layout.tp, u = r.ulysses_ranks();
  const AttentionTraffic wire{1, r.gathered_rows(), a.h / tp, std::max<int64_t>(1, a.hk / tp), a.d, B, r.bookkeeping.wire_gradient_bytes};
  DirectionBytes bytes;
  switch (r.scheme) {
    case Scheme::Ring:
    case Scheme::Zigzag: bytes = ring_bytes(wire, cp, r.bookkeeping.ring_backward); break;
    case Scheme::AllGather: bytes = all_gather_kv_bytes(wire, cp); break;
    case Scheme::Ulysses: bytes = ulysses_bytes(wire, cp, r.bookkeeping.replicate_kv); break;
    case Scheme::Usp: bytes = usp_bytes(wire, u, cp / u, r.bookkeeping.ring_backward).total(); break;
  }
  return {bytes.forward, bytes.backward};
}

int64_t delta_exchange_bytes(const Request& r, DeltaExchange exchange) {
  const DeltaConfig& k = *r.model.delta;
  const int64_t cp = r.layout.cp, tp = r.layout.tp, h = k.h / tp;
  if (exchange == DeltaExchange::State)
    return state_gather_bytes(state_block_bytes(h, k.d, k.dv, 4, true), cp) +
           convolution_halo_bytes(k.kernel, (2 * k.hk * k.d + k.h * k.dv) / tp, B);
  if (exchange == DeltaExchange::Hidden) return all_gather_bytes(r.rows() * cp * r.model.c * B, cp);
  const bool kda = r.model.count(Mixer::Kda) > 0;  // q, k, v, decay, gate per channel and beta per head; a gated delta rule decays per head
  const int64_t width = kda ? h * (3 * k.d + 2 * k.dv + 1) : 2 * std::max<int64_t>(1, k.hk / tp) * k.d + h * (2 * k.dv + 2);
  return all_to_all_bytes(r.gathered_rows() * width * B, cp);
}

std::vector<TrafficTerm> plan_traffic(const Request& r) {
  Terms terms(r);
  add_tensor_parallel(terms, r);
  add_context_parallel(terms, r);
  add_experts(terms, r);
  add_data_parallel(terms, r);
  if (r.layout.pp > 1)
    terms.step("stages", r.layout.pp, r.layout.tp * r.layout.cp * r.layout.dp, layer_input_bytes(r), layer_input_bytes(r), false);
  if (r.techniques.offload == Offload::Inputs) terms.host("offload", r.layers_per_stage(), layer_input_bytes(r), layer_input_bytes(r));
  if (r.techniques.optimizer == OptimizerPlace::Host) {
    const int64_t share = rank_parameters(r, 0).dense / (r.techniques.zero >= 1 ? r.layout.dp * r.layout.cp : 1) +
                          rank_parameters(r, 0).experts / (r.techniques.zero >= 1 ? r.layout.expert_copies() : 1);
    terms.host("optimizer", 1, share * r.techniques.gradient_bytes, share * B);
  }
  return terms.take();
}

}  // namespace megatoken::plan
