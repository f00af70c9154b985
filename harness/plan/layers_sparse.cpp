// Sparse latent attention with its indexer as a tape.
#include <algorithm>

#include "harness/plan/layers.hpp"

namespace megatoken::plan {
namespace {

constexpr int64_t B = kActivationBytes;
// The shapes that kernels made for DeepSeek-V3.2 accept.
constexpr int64_t kPaddedRope = 64, kPaddedHeads = 16, kPaddedKeys = 64;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Index queries that one rank scores.
int64_t index_rows(const Request& r) { return r.techniques.index_sharded ? r.rows() : r.gathered_rows(); }

int64_t selected_width(const Request& r) {
  const int64_t keys = r.model.sparse->selected_keys();
  return r.techniques.sparse_kernel == SparseKernel::Padded ? round_up(keys, kPaddedKeys) : keys;
}

/// Scores, selects and expands; nothing flows back. Ids of the selected keys stay for the attention.
int add_indexer(Tape& tape, const Request& r, int x, int q_latent) {
  const SparseAttentionConfig& a = *r.model.sparse;
  const int64_t rows = r.gathered_rows();
  const int queries = tape.add({.name = "index queries", .part = Part::Indexer, .reads = {q_latent},
                                .bytes = rows * a.index_heads * a.index_d * B, .differentiable = false});
  const int keys = tape.add({.name = "index keys", .part = Part::Indexer, .reads = {x},
                             .bytes = 2 * r.tokens * a.index_d * B,  // keys and pool gates
                             .scratch = gathered_bytes(r), .differentiable = false});
  return tape.add({.name = "index scores", .part = Part::Indexer, .reads = {queries, keys}, .bytes = rows * selected_width(r) * 4,
                   .scratch = index_score_bytes(r), .differentiable = false});
}

/// Dense fallback: every score of every head in fp32, the probabilities in fp32 and in bf16.
int add_dense_core(Tape& tape, const Request& r, int query, int kv, int ids, int64_t out_bytes, int segment) {
  const int64_t rectangle = dense_score_bytes(r);
  const int probabilities = tape.add({.name = "dense scores and softmax", .part = Part::Mixer, .reads = {query, kv, ids},
                                      .saves = {query, kv, kSelf}, .bytes = rectangle, .scratch = rectangle, .backward_scratch = rectangle,
                                      .segment = segment});
  return tape.add({.name = "dense values", .part = Part::Mixer, .reads = {probabilities, kv}, .saves = {kv, kSelf},
                   .bytes = out_bytes + rectangle / 2, .gradient_bytes = out_bytes, .segment = segment});
}

int add_fused_core(Tape& tape, const Request& r, int query, int kv, int ids, int segment) {
  const SparseAttentionConfig& a = *r.model.sparse;
  const int64_t rows = r.gathered_rows(), h = a.h / r.layout.tp;
  const bool padded = r.techniques.sparse_kernel == SparseKernel::Padded;
  const int64_t heads = padded ? std::max(h, kPaddedHeads) : h, wide = a.latent + (padded ? kPaddedRope : 0);
  const int64_t copy = padded ? rows * heads * wide * B : 0, out = rows * heads * a.latent * B, kv_gradient = r.tokens * wide * 4;
  const int64_t chunk = r.techniques.query_chunk;
  if (chunk > 0) {  // the kernel's own copies exist for one chunk at a time
    const int64_t part = (copy + out) / rows * std::min(chunk, rows);
    return tape.add({.name = "sparse attention in chunks", .part = Part::Mixer, .reads = {query, kv, ids}, .saves = {query, kv, ids},
                     .bytes = rows * h * a.latent * B, .scratch = part, .backward_scratch = 2 * part + kv_gradient, .segment = segment});
  }
  if (padded) query = tape.add({.name = "padded queries", .part = Part::Mixer, .reads = {query}, .bytes = copy, .segment = segment});
  return tape.add({.name = "sparse attention", .part = Part::Mixer, .reads = {query, kv, ids}, .saves = {query, kv, ids, kSelf},
                   .bytes = out + rows * heads * 4, .backward_scratch = kv_gradient, .segment = segment});
}

}  // namespace

int64_t index_score_bytes(const Request& r) {
  const SparseAttentionConfig& a = *r.model.sparse;
  const int64_t limit = r.techniques.index_elements, all = index_rows(r) * (r.tokens / a.index_pool) * a.index_heads;
  if (limit == 0) return 2 * all * 4;  // the products and their rectified copy
  const int64_t alive = std::min(all, limit);
  return alive * 4 + alive / a.index_heads * 4;  // rectified in place, and the sum over heads
}

int64_t dense_score_bytes(const Request& r) { return r.model.sparse->h / r.layout.tp * r.gathered_rows() * r.tokens * 4; }

int add_sparse_attention(Tape& tape, const Request& r, int x) {
  const SparseAttentionConfig& a = *r.model.sparse;
  const int64_t n = r.rows(), rows = r.gathered_rows(), h = a.h / r.layout.tp;
  const auto latent = [&](const char* name, int64_t width) {
    const int down = tape.add({.name = name, .part = Part::Mixer, .reads = {x}, .saves = {x}, .bytes = n * width * B});
    return tape.add({.name = "norm of latent", .part = Part::Mixer, .reads = {down}, .saves = {down}, .bytes = n * width * B});
  };
  const int q_latent_own = latent("query entry", a.query_rank), kv_own = latent("key and value entry", a.latent);
  const int q_latent = tape.add({.name = "gather of query latents", .part = Part::Exchange, .reads = {q_latent_own},
                                 .bytes = rows * a.query_rank * B});
  const int kv = tape.add({.name = "gather of key latents", .part = Part::Exchange, .reads = {kv_own}, .bytes = r.tokens * a.latent * B,
                           .gradient_bytes = r.tokens * a.latent * 4});
  const int query = tape.add({.name = "query exit", .part = Part::Mixer, .reads = {q_latent}, .saves = {q_latent},
                              .bytes = rows * h * (a.d + a.rope) * B});
  const int absorbed = tape.add({.name = "absorbed queries", .part = Part::Mixer, .reads = {query}, .saves = {query},
                                 .bytes = rows * h * a.latent * B});
  const int ids = add_indexer(tape, r, x, q_latent);

  const int segment = r.techniques.recompute == Recompute::Selective ? tape.next_segment() : 0;
  const bool dense = r.techniques.sparse_kernel == SparseKernel::Dense;
  const int o_latent = dense ? add_dense_core(tape, r, absorbed, kv, ids, rows * h * a.latent * B, segment)
                             : add_fused_core(tape, r, absorbed, kv, ids, segment);
  const int o = tape.add({.name = "value exit", .part = Part::Mixer, .reads = {o_latent}, .saves = {o_latent}, .bytes = rows * h * a.dv * B});
  return tape.add({.name = "output projection", .part = Part::Mixer, .reads = {o}, .saves = {o}, .bytes = n * r.model.c * B,
                   .scratch = gathered_bytes(r),
                   .backward_scratch = gathered_bytes(r)});
}

}  // namespace megatoken::plan
