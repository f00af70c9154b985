// FLOPs by component. A projection of p weights costs 2p per token forward and 4p backward.
#include "harness/plan/flops.hpp"

#include <algorithm>

#include "reference/model/parameters.hpp"

namespace megatoken::plan {
namespace {

constexpr double kAttentionBackward = 2.5;  // five products for two
// Delta rule, per token and head of 128 × 128, chunks of 64: forward with w and u, backward with its own recomputation of the chunk.
constexpr double kDeltaForward = 180224, kDeltaBackward = 500000;
// Bytes that one token and head of 128 moves: q, k, v, o in bf16 and the gate in fp32; three-kernel backward.
constexpr double kDeltaForwardBytes = 1540, kDeltaBackwardBytes = 8500;

struct Sums {
  double projections = 0, attention = 0, sparse = 0, indexer_projections = 0, indexer = 0, delta = 0, mlp = 0, experts = 0, streams = 0,
         stream_sites = 0;
  double delta_heads = 0;
};

double d(int64_t value) { return static_cast<double>(value); }

Sums forward_of_one_sequence(const Request& r) {
  const ModelConfig& m = r.model;
  const double t = d(r.tokens);
  Sums s;
  for (const LayerConfig& layer : m.layers) {
    const LayerParameters p = count_layer_parameters(m, layer);
    s.projections += 2 * t * d(p.mixer.total());
    switch (layer.mixer) {
      case Mixer::Attention: s.attention += 4 * d(causal_pair_count(r.tokens)) * d(m.attention->h * m.attention->d); break;
      case Mixer::SparseAttention:
        s.indexer_projections += 2 * t * d(p.indexer.total());
        s.indexer += 2 * d(indexed_pairs(r.tokens, m.sparse->index_pool)) * d(m.sparse->index_heads * m.sparse->index_d);
        s.sparse += 4 * d(selected_pairs(r.tokens, *m.sparse)) * d(m.sparse->h * m.sparse->latent);
        break;
      case Mixer::Kda:
      case Mixer::GatedDelta: {
        const double heads = t * d(m.delta->h) * d(m.delta->d * m.delta->dv) / (128 * 128);
        s.delta += heads * kDeltaForward;
        s.delta_heads += heads;
        break;
      }
    }
    if (layer.mlp == Mlp::Dense) {
      s.mlp += 2 * t * d(p.mlp.total());
    } else {
      s.mlp += 2 * t * d(p.mlp.total());
      s.experts += 2 * t * d(m.experts->per_token * p.one_expert + p.router.total());
    }
    if (m.hyper.n > 1) {
      const double n = d(m.hyper.n), c = d(m.c);
      s.streams += 2 * t * (2 * (n * n + 2 * n) * n * c + 2 * (n + n * n + n) * c);
      s.stream_sites += 2;
    }
  }
  return s;
}

}  // namespace

int64_t causal_pair_count(int64_t tokens) { return tokens * (tokens + 1) / 2; }

int64_t indexed_pairs(int64_t tokens, int64_t pool) {
  const int64_t pools = tokens / pool, rest = tokens % pool;  // query i sees floor((i+1)/pool) pools
  return pool * (pools * (pools - 1) / 2) + pools * (rest + 1);
}

int64_t selected_pairs(int64_t tokens, const SparseAttentionConfig& a) {
  const int64_t pool = a.index_pool, most = a.index_topk / pool, tail_from = a.always_select_tail ? 1 : 0;
  int64_t pairs = 0;
  // Until the pools exceed topk every visible key of whole pools is read; the tail adds (i+1) mod pool.
  const int64_t full_pools = tokens / pool, rest = tokens % pool;
  const auto selected_sum = [&](int64_t p) { return std::min(p, most) * pool; };
  for (int64_t p = 0; p < std::min(full_pools, most); ++p) pairs += pool * selected_sum(p);
  if (full_pools > most) pairs += (full_pools - most) * pool * most * pool;
  pairs += rest * selected_sum(full_pools);
  // pairs counts queries p·pool … p·pool+pool−1 as seeing p pools; the last of each group already sees p+1.
  pairs += std::min(full_pools, most) * pool;
  const int64_t tails = full_pools * (pool * (pool - 1) / 2) + rest * (rest + 1) / 2;
  return pairs + tail_from * tails;
}

std::vector<ComponentFlops> plan_flops(const Request& r) {
  const ModelConfig& m = r.model;
  const Sums s = forward_of_one_sequence(r);
  const bool full = r.techniques.recompute == Recompute::Full, cores = full || r.techniques.recompute == Recompute::Selective;
  const double replicas = r.techniques.index_sharded ? 1 : d(r.layout.tp);  // every tensor-parallel rank repeats unsharded scoring
  const double stream_bytes = d(r.tokens) * d(m.hyper.n * m.c) * kActivationBytes * s.stream_sites;
  std::vector<ComponentFlops> all;
  const auto add = [&](const char* name, Kernel kernel, double forward, double backward_factor, int again) {
    if (forward > 0) all.push_back({name, kernel, forward, forward * backward_factor, again * forward});
  };
  // Pieces and query chunks recompute their own part once more, inside a layer that is itself recomputed.
  const int mlp_again = full + (r.techniques.mlp_pieces > 1), experts_again = cores + (r.techniques.expert_pieces > 1),
            sparse_again = cores + (r.techniques.query_chunk > 0);
  add("projections", Kernel::Gemm, s.projections, 2, full);
  add("attention", Kernel::Attention, s.attention, kAttentionBackward, cores);
  add("sparse attention", Kernel::Attention, s.sparse, kAttentionBackward, sparse_again);
  add("indexer projections", Kernel::Gemm, s.indexer_projections * replicas, 0, full);
  add("indexer", Kernel::Indexer, s.indexer * replicas, 0, full);
  if (s.delta > 0) {
    add("delta rule", Kernel::Recurrence, s.delta, kDeltaBackward / kDeltaForward, full);
    all.back().bytes_forward = s.delta_heads * kDeltaForwardBytes;
    all.back().bytes_backward = s.delta_heads * kDeltaBackwardBytes;
  }
  add("mlp", Kernel::Gemm, s.mlp, 2, mlp_again);
  add("experts", Kernel::Gemm, s.experts, 2, experts_again);
  if (s.streams > 0) {
    add("streams", Kernel::Streams, s.streams, 2, full);
    all.back().bytes_forward = 3 * stream_bytes;   // read for the weights and the sum, read again for the mix, written
    all.back().bytes_backward = 5 * stream_bytes;  // streams and their gradient read, both products, gradient written
  }
  add("head", Kernel::Gemm, 2 * d(r.tokens) * d(m.v * m.c), 2, false);
  return all;
}

double total_flops(const std::vector<ComponentFlops>& components) {
  double sum = 0;
  for (const auto& c : components) sum += c.total();
  return sum;
}

double model_flops(const std::vector<ComponentFlops>& components) {
  double sum = 0;
  for (const auto& c : components) sum += c.forward + c.backward;
  return sum;
}

}  // namespace megatoken::plan
