// The byte formulas of traffic.hpp. Products come before the division, so that a whole result stays whole.
#include "reference/schemes/traffic.hpp"

#include <cmath>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

int64_t share_for_others(int64_t bytes, int64_t ranks) {
  MEGATOKEN_CHECK(ranks >= 1, "traffic over {} ranks: at least 1 rank is needed", ranks);
  return bytes / ranks * (ranks - 1) + bytes % ranks * (ranks - 1) / ranks;
}

}  // namespace

int64_t all_reduce_bytes(int64_t buffer, int64_t ranks) { return share_for_others(2 * buffer, ranks); }
int64_t all_gather_bytes(int64_t buffer, int64_t ranks) { return share_for_others(buffer, ranks); }
int64_t reduce_scatter_bytes(int64_t buffer, int64_t ranks) { return share_for_others(buffer, ranks); }
int64_t all_to_all_bytes(int64_t buffer, int64_t ranks) { return share_for_others(buffer, ranks); }

int64_t kv_block_bytes(const AttentionTraffic& a) { return 2 * a.b * a.n * a.hk * a.d * a.element_bytes; }
int64_t kv_gradient_block_bytes(const AttentionTraffic& a) { return 2 * a.b * a.n * a.hk * a.d * a.gradient_bytes; }

int64_t ring_forward_bytes(const AttentionTraffic& a, int64_t ranks) { return (ranks - 1) * kv_block_bytes(a); }

int64_t ring_backward_bytes(const AttentionTraffic& a, int64_t ranks, RingBackward schedule) {
  if (ranks == 1) return 0;
  const int64_t gradient_hops = schedule == RingBackward::SameDirection ? ranks : ranks - 1;
  return (ranks - 1) * kv_block_bytes(a) + gradient_hops * kv_gradient_block_bytes(a);
}

DirectionBytes ring_bytes(const AttentionTraffic& a, int64_t ranks, RingBackward schedule) {
  return {ring_forward_bytes(a, ranks), ring_backward_bytes(a, ranks, schedule)};
}

DirectionBytes all_gather_kv_bytes(const AttentionTraffic& a, int64_t ranks) {
  const int64_t gathered = (ranks - 1) * kv_block_bytes(a);
  return {gathered, gathered + (ranks - 1) * kv_gradient_block_bytes(a)};
}

int64_t ulysses_kv_heads(int64_t hk, int64_t ranks) {
  if (hk % ranks == 0) return hk;
  return ranks % hk == 0 ? ranks : 0;
}

DirectionBytes ulysses_bytes(const AttentionTraffic& a, int64_t ranks, bool replicate_kv) {
  const int64_t kv_heads = replicate_kv ? ulysses_kv_heads(a.hk, ranks) : a.hk;
  MEGATOKEN_CHECK(kv_heads > 0, "Ulysses over {} ranks with {} key/value heads: one must divide the other", ranks, a.hk);
  const int64_t sent = all_to_all_bytes(a.b * a.n * a.d * a.element_bytes * (2 * a.h + 2 * kv_heads), ranks);
  return {sent, sent};
}

UspBytes usp_bytes(const AttentionTraffic& a, int64_t ulysses, int64_t ring, RingBackward schedule) {
  UspBytes bytes;
  bytes.all_to_all = ulysses_bytes(a, ulysses);
  // n·ulysses tokens times e/ulysses heads: the ring of this rank moves as much as n tokens with all e heads.
  AttentionTraffic inside = a;
  inside.hk = ulysses_kv_heads(a.hk, ulysses);
  bytes.ring = ring_bytes(inside, ring, schedule);
  return bytes;
}

double ulysses_ring_crossover(int64_t h, int64_t hk) { return 1.0 + static_cast<double>(h) / static_cast<double>(hk); }

double ulysses_ring_crossover_replicated(int64_t h, int64_t hk) {
  MEGATOKEN_CHECK(hk >= 2, "with {} key/value head, replicated Ulysses never becomes cheaper than the ring", hk);
  return static_cast<double>(h) / static_cast<double>(hk - 1);
}

int64_t tensor_parallel_unit_bytes(int64_t b, int64_t t, int64_t c, int64_t element_bytes, int64_t ranks) {
  return share_for_others(b * t * c * element_bytes, ranks);
}

DirectionBytes tensor_parallel_layer_bytes(int64_t unit, TensorParallel mode) {
  return {4 * unit, mode == TensorParallel::Regather ? 6 * unit : 4 * unit};
}

int64_t expert_dispatch_bytes(int64_t t, int64_t experts_per_token, int64_t ranks, int64_t c, int64_t element_bytes) {
  return share_for_others(t * experts_per_token * c * element_bytes, ranks);
}

int64_t expert_rows_bytes(int64_t rows_to_other_ranks, int64_t c, int64_t element_bytes) { return rows_to_other_ranks * c * element_bytes; }

double expected_distinct_groups(int64_t experts, int64_t experts_per_token, int64_t groups) {
  MEGATOKEN_CHECK(groups >= 1 && experts % groups == 0, "{} experts in {} groups: the groups must divide the experts", experts, groups);
  const int64_t outside = experts - experts / groups;
  double none_in_group = 1;  // C(outside, k)/C(experts, k), factor by factor
  for (int64_t i = 0; i < experts_per_token; ++i)
    none_in_group *= std::fmax(0.0, static_cast<double>(outside - i)) / static_cast<double>(experts - i);
  return static_cast<double>(groups) * (1 - none_in_group);
}

int64_t state_block_bytes(int64_t heads, int64_t dk, int64_t dv, int64_t element_bytes, bool with_transition) {
  return heads * dk * (with_transition ? dk + dv : dv) * element_bytes;
}

int64_t state_gather_bytes(int64_t block, int64_t ranks) { return (ranks - 1) * block; }

int64_t convolution_halo_bytes(int64_t kernel, int64_t channels, int64_t element_bytes) { return (kernel - 1) * channels * element_bytes; }

}  // namespace megatoken
