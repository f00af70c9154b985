// Bytes that leave one rank, as formulas: what every scheme must send, no more and no less. The scheme code, the ledger checks and the
// planner use the same functions, so a test that compares ledger and formula compares two independent counts.
//
// Counting rule: a point-to-point message counts what is handed to send; a collective counts the ring-optimal share of its full buffer
// (all-reduce 2(r−1)/r, reduce-scatter, all-gather and all-to-all (r−1)/r); what a rank keeps for itself is never counted. All patterns
// here are symmetric: received = sent. A share that is not a whole number of bytes is rounded down.
#pragma once
#include <cstdint>

namespace megatoken {

/// One attention layer as the wire sees it; n is the number of tokens that one rank holds.
struct AttentionTraffic {
  int64_t b = 1, n = 0, h = 0, hk = 0, d = 0;
  int64_t element_bytes = 2;   // q, k, v, o on the wire
  int64_t gradient_bytes = 4;  // dk, dv on the wire: 4 when they travel in fp32
};

/// What one rank sends in one layer.
struct DirectionBytes {
  int64_t forward = 0, backward = 0;
  int64_t total() const { return forward + backward; }
  bool operator==(const DirectionBytes&) const = default;
};

// ---- collectives: `buffer` is the full buffer in bytes (what every rank ends up with, or starts from) --------------------------------
int64_t all_reduce_bytes(int64_t buffer, int64_t ranks);       // 2(r−1)/r · buffer
int64_t all_gather_bytes(int64_t buffer, int64_t ranks);       // (r−1)/r · buffer; buffer is the gathered result
int64_t reduce_scatter_bytes(int64_t buffer, int64_t ranks);   // (r−1)/r · buffer; buffer is the unreduced input
int64_t all_to_all_bytes(int64_t buffer, int64_t ranks);       // (r−1)/r · buffer; buffer is one rank's input

// ---- attention spread over the tokens ------------------------------------------------------------------------------------------------
/// Keys and values of one rank: 2·b·n·hk·d·B, "one block" of the ring.
int64_t kv_block_bytes(const AttentionTraffic& a);
int64_t kv_gradient_block_bytes(const AttentionTraffic& a);  // the same in gradient bytes

/// Ring forward, contiguous or zig-zag alike: the block makes r−1 hops.
int64_t ring_forward_bytes(const AttentionTraffic& a, int64_t ranks);

/// How the backward ring turns. SameDirection repeats the forward rotation, so dk, dv make r hops (the last one brings them home);
/// ReverseDirection starts from the block received last in the forward, so dk, dv make r−1 hops.
enum class RingBackward { SameDirection, ReverseDirection };
int64_t ring_backward_bytes(const AttentionTraffic& a, int64_t ranks, RingBackward schedule = RingBackward::ReverseDirection);
DirectionBytes ring_bytes(const AttentionTraffic& a, int64_t ranks, RingBackward schedule = RingBackward::ReverseDirection);

/// Gather k, v of all ranks in every layer: forward (r−1)·block; backward gathers again and reduce-scatters dk, dv.
DirectionBytes all_gather_kv_bytes(const AttentionTraffic& a, int64_t ranks);

/// Key/value heads that travel in an all-to-all over `ranks`: hk when the ranks divide it; `ranks` when each head must be repeated
/// ranks/hk times; 0 when neither works, so the layout is impossible.
int64_t ulysses_kv_heads(int64_t hk, int64_t ranks);

/// Ulysses: q, k, v out and o back, (r−1)/r · b·n·d·B·(2h + 2e); the backward sends the same. e = ulysses_kv_heads, or hk with
/// replicate_kv = false: a bookkeeping number only, impossible to run when the ranks do not divide hk.
DirectionBytes ulysses_bytes(const AttentionTraffic& a, int64_t ranks, bool replicate_kv = true);

/// USP: an all-to-all inside groups of `ulysses` ranks, then a zig-zag ring over `ring` such groups on n·ulysses tokens and 1/ulysses of
/// the heads. The ring rows carry b·n·e·d, so both terms are counted per rank. usp(1, r) is the ring, usp(r, 1) is Ulysses.
struct UspBytes {
  DirectionBytes all_to_all, ring;
  DirectionBytes total() const { return {all_to_all.forward + ring.forward, all_to_all.backward + ring.backward}; }
};
UspBytes usp_bytes(const AttentionTraffic& a, int64_t ulysses, int64_t ring, RingBackward schedule = RingBackward::ReverseDirection);

/// Ranks at which Ulysses without replication becomes as cheap as the ring: 1 + h/hk.
double ulysses_ring_crossover(int64_t h, int64_t hk);
/// The same when k, v heads are replicated to one per rank: h/(hk−1).
double ulysses_ring_crossover_replicated(int64_t h, int64_t hk);

// ---- tensor parallelism, with its sequence-parallel regions --------------------------------------------------------------------------
/// One unit: an all-gather or a reduce-scatter of one activation over `ranks`, (r−1)/r · b·t·c·B; an all-reduce is two units.
int64_t tensor_parallel_unit_bytes(int64_t b, int64_t t, int64_t c, int64_t element_bytes, int64_t ranks);

/// Units per layer with two column→row parallel blocks (attention, mlp).
///   AllReduce: 2 + 2 all-reduces. Nominal: each becomes a reduce-scatter and an all-gather, 4 + 4 units. Regather: the backward
///   gathers the saved shards again for the weight gradients, 4 + 6 units.
enum class TensorParallel { AllReduce, Nominal, Regather };
DirectionBytes tensor_parallel_layer_bytes(int64_t unit, TensorParallel mode);

// ---- experts -------------------------------------------------------------------------------------------------------------------------
/// Expected bytes of one dispatch (the combine, and each of them in the backward, sends the same) with uniform routing over `ranks`:
/// t·k·(r−1)/r·c·B. The exact number is Σ over other ranks of rows·c·B from the routing table: expert_rows_bytes.
int64_t expert_dispatch_bytes(int64_t t, int64_t experts_per_token, int64_t ranks, int64_t c, int64_t element_bytes);
int64_t expert_rows_bytes(int64_t rows_to_other_ranks, int64_t c, int64_t element_bytes);
/// Mean number of distinct groups that one token's k experts fall into: groups·(1 − C(E−e, k)/C(E, k)), e = experts/groups.
double expected_distinct_groups(int64_t experts, int64_t experts_per_token, int64_t groups);

// ---- recurrences ---------------------------------------------------------------------------------------------------------------------
/// What one rank contributes to the hand-over of a delta rule's state: per head the local state [dk, dv] and, because the rule mixes the
/// incoming state, the cumulative transition [dk, dk].
int64_t state_block_bytes(int64_t heads, int64_t dk, int64_t dv, int64_t element_bytes, bool with_transition);
/// All ranks gather all contributions: (r−1)·block, in each direction, independent of the number of tokens.
int64_t state_gather_bytes(int64_t block, int64_t ranks);
/// Short convolution: each rank but the last hands its last kernel−1 rows of `channels` to the next one.
int64_t convolution_halo_bytes(int64_t kernel, int64_t channels, int64_t element_bytes);

}  // namespace megatoken
