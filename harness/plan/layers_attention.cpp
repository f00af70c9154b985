// Softmax attention and the two delta rules as tapes.
#include <algorithm>

#include "harness/plan/layers.hpp"
#include "reference/schemes/traffic.hpp"

namespace megatoken::plan {
namespace {

constexpr int64_t B = kActivationBytes;

/// Bytes that the core of softmax attention keeps beside its operands while it runs, by scheme. Blocks: k and v of one rank.
struct CoreScratch {
  int64_t forward = 0, backward = 0;
};
CoreScratch core_scratch(const Request& r, int64_t query_elements, int64_t kv_elements, bool grouped) {
  const int64_t ring_ranks = r.layout.cp / r.ulysses_ranks(), block = 2 * kv_elements * B, gradient_block = 2 * kv_elements * 4;
  CoreScratch s;
  s.backward = query_elements * 4 + (grouped ? 2 * query_elements * B : 0);  // fp32 dq; dk and dv per query head before they are summed
  if (ring_ranks == 1) return s;
  if (r.scheme == Scheme::AllGather) {
    s.forward = ring_ranks * block;
    s.backward += ring_ranks * (block + gradient_block);
  } else {
    s.forward = 2 * block + query_elements * 4;  // two receive buffers, fp32 output
    s.backward += 2 * block + 2 * gradient_block;
  }
  return s;
}

/// A projection into the heads of this rank: its input is gathered while it runs, and again in the backward beside the gathered gradient.
Operation projection(const Request& r, const char* name, int x, int64_t bytes) {
  const int64_t gathered = gathered_bytes(r);
  return {.name = name, .part = Part::Mixer, .reads = {x}, .saves = {x}, .bytes = bytes, .scratch = gathered, .backward_scratch = 2 * gathered};
}

Operation output_projection(const Request& r, int o) {
  const int64_t gathered = gathered_bytes(r);
  return {.name = "output projection", .part = Part::Mixer, .reads = {o}, .saves = {o}, .bytes = r.rows() * r.model.c * B, .scratch = gathered,
          .backward_scratch = gathered};
}

Operation exchange(const char* name, int x, int64_t bytes) {
  return {.name = name, .part = Part::Exchange, .reads = {x}, .bytes = bytes, .scratch = bytes, .backward_scratch = bytes};
}

// Measured: FLA 0.5 chunk_kda, forward and backward on an H200, 64 heads of 128 × 8192 tokens: 4.0 GiB above its inputs = 8192 B per token
// and head. Output, chunk matrices and the four gradients (1792 B of them) are tensors of the tape; the rest is scratch.
constexpr int64_t kDeltaBackwardScratch = 8192 - 1792;
// Forward: a state of 128 × 128 bf16 every 64 tokens, w, u, kg and new values in bf16, cumulated gates in fp32.
constexpr int64_t kDeltaForwardScratch = 512 + 4 * 256 + 512;
constexpr int64_t kDeltaHead = 128;  // the head width of both figures
constexpr int64_t kChunk = 64;

struct DeltaShape {
  int64_t key_elements, value_elements, heads_rows;  // on one rank
};

/// Everything between the projections and the output of a delta rule; both kinds share it.
int add_delta_core(Tape& tape, const Request& r, const DeltaShape& s, int qkv, int decay) {
  const DeltaConfig& k = *r.model.delta;
  const int64_t conv_bytes = (2 * s.key_elements + s.value_elements) * B;
  const int convolved = tape.add({.name = "convolution", .part = Part::Mixer, .reads = {qkv}, .saves = {qkv}, .bytes = conv_bytes});
  const int chunks = tape.add({.name = "chunk matrices", .part = Part::Mixer, .reads = {convolved, decay}, .bytes = 2 * s.heads_rows * kChunk * B,
                               .gradient_bytes = 0});
  const auto per_head = [&](int64_t bytes) { return s.heads_rows * bytes * (k.d + k.dv) / (2 * kDeltaHead); };
  return tape.add({.name = "delta rule", .part = Part::Mixer, .reads = {convolved, decay, chunks}, .saves = {convolved, decay, chunks},
                   .bytes = s.value_elements * B, .scratch = per_head(kDeltaForwardScratch), .backward_scratch = per_head(kDeltaBackwardScratch)});
}

bool by_heads(const Request& r) { return r.layout.cp > 1 && r.delta_exchange != DeltaExchange::State; }

/// Rows × heads of a rank do not depend on whether cp splits tokens or heads; what is gathered before the projections does.
Operation delta_projection(const Request& r, const char* name, int x, int64_t bytes) {
  Operation op = projection(r, name, x, bytes);
  if (by_heads(r) && r.delta_exchange == DeltaExchange::Hidden) {
    const int64_t whole = r.tokens * r.model.c * B;  // hidden rows of the whole sequence, while the projections run
    op.scratch = whole;
    op.backward_scratch = 2 * whole;
  }
  return op;
}

}  // namespace

int add_attention(Tape& tape, const Request& r, int x) {
  const AttentionConfig& a = *r.model.attention;
  const int64_t rows = r.gathered_rows(), h = a.h / r.layout.tp, hk = std::max<int64_t>(1, a.hk / r.layout.tp);
  const int64_t query_elements = rows * h * a.d, kv_elements = rows * hk * a.d;
  int query = tape.add(projection(r, "query projection", x, query_elements * (a.output_gate ? 2 : 1) * B));
  const int gate = query;
  int key = tape.add(projection(r, "key projection", x, kv_elements * B));
  int value = tape.add(projection(r, "value projection", x, kv_elements * B));
  const auto kept = [&](int tensor) { return a.qk_norm ? std::vector<int>{tensor} : std::vector<int>{}; };
  query = tape.add({.name = "rotate queries", .part = Part::Mixer, .reads = {query}, .saves = kept(query), .bytes = query_elements * B});
  key = tape.add({.name = "rotate keys", .part = Part::Mixer, .reads = {key}, .saves = kept(key), .bytes = kv_elements * B});

  int64_t core_kv = kv_elements;
  const int64_t u = r.ulysses_ranks();
  if (u > 1) {
    core_kv = rows * ulysses_kv_heads(hk, u) * a.d;
    query = tape.add(exchange("all-to-all of queries", query, query_elements * B));
    key = tape.add(exchange("all-to-all of keys", key, core_kv * B));
    value = tape.add(exchange("all-to-all of values", value, core_kv * B));
  }
  const CoreScratch scratch = core_scratch(r, query_elements, core_kv, query_elements > core_kv);
  int o = tape.add({.name = "attention", .part = Part::Mixer, .reads = {query, key, value}, .saves = {query, key, value, kSelf},
                    .bytes = query_elements * B + rows * h * 4, .scratch = scratch.forward, .backward_scratch = scratch.backward,
                    .segment = r.techniques.recompute == Recompute::Selective ? tape.next_segment() : 0});
  if (u > 1) o = tape.add(exchange("all-to-all of outputs", o, query_elements * B));
  if (a.output_gate) o = tape.add({.name = "output gate", .part = Part::Mixer, .reads = {o, gate}, .saves = {o, gate}, .bytes = query_elements * B});
  return tape.add(output_projection(r, o));
}

int add_kda(Tape& tape, const Request& r, int x) {
  const DeltaConfig& k = *r.model.delta;
  const int64_t rows = r.gathered_rows(), h = k.h / r.layout.tp, elements = rows * h * k.d;
  const int qkv = tape.add(delta_projection(r, "q, k, v projection", x, 3 * elements * B));
  const int low_rank = tape.add(delta_projection(r, "gate entries", x, 2 * rows * k.d * B));
  const auto up = [&](const char* name) {
    return tape.add({.name = name, .part = Part::Mixer, .reads = {low_rank}, .saves = {low_rank}, .bytes = elements * B});
  };
  int decay = up("decay gate"), gate = up("output gate");
  int mixed = qkv;
  if (by_heads(r) && r.delta_exchange == DeltaExchange::Projections) {
    mixed = tape.add(exchange("all-to-all of q, k, v", qkv, 3 * elements * B));
    decay = tape.add(exchange("all-to-all of decay", decay, elements * B));
    gate = tape.add(exchange("all-to-all of gate", gate, elements * B));
  }
  const int o = add_delta_core(tape, r, {elements, elements, rows * h}, mixed, decay);
  int gated = tape.add({.name = "norm and gate", .part = Part::Mixer, .reads = {o, gate}, .saves = {o, gate}, .bytes = elements * B});
  if (by_heads(r)) gated = tape.add(exchange("all-to-all of outputs", gated, elements * B));
  return tape.add(output_projection(r, gated));
}

int add_gated_delta(Tape& tape, const Request& r, int x) {
  const DeltaConfig& g = *r.model.delta;
  const int64_t rows = r.gathered_rows(), h = g.h / r.layout.tp, hk = std::max<int64_t>(1, g.hk / r.layout.tp);
  const DeltaShape shape{rows * hk * g.d, rows * h * g.dv, rows * h};
  int qkv = tape.add(delta_projection(r, "q, k, v projection", x, (2 * shape.key_elements + shape.value_elements) * B));
  int gate = tape.add(delta_projection(r, "output gate", x, shape.value_elements * B));
  const int decay = tape.add(delta_projection(r, "decay and beta", x, 2 * rows * h * B));
  if (by_heads(r) && r.delta_exchange == DeltaExchange::Projections) {
    qkv = tape.add(exchange("all-to-all of q, k, v", qkv, (2 * shape.key_elements + shape.value_elements) * B));
    gate = tape.add(exchange("all-to-all of gate", gate, shape.value_elements * B));
  }
  const int o = add_delta_core(tape, r, shape, qkv, decay);
  int gated = tape.add({.name = "norm and gate", .part = Part::Mixer, .reads = {o, gate}, .saves = {o, gate}, .bytes = shape.value_elements * B});
  if (by_heads(r)) gated = tape.add(exchange("all-to-all of outputs", gated, shape.value_elements * B));
  return tape.add(output_projection(r, gated));
}

}  // namespace megatoken::plan
