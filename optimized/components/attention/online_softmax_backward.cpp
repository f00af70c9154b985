// attention/online_softmax, backward: P = e^{S − lse} is computed again tile by tile, once, for all three gradients:
//   dP = v doᵀ,  dS = scale · P ∘ (dP − Δ),  dv += P do,  dk += dS q,  dq += dSᵀ k        (five products a tile)
// Keys and queries are cut into blocks. A work item is one block of keys (of a key/value head, with all its query heads) against
// one block of queries, and adds to the gradients of both. Items run in rounds: in round r key block c meets query block
// (c + r) mod n, so no two items of a round share a block. Hence no locks, no atomics, and sums in the same order for any
// number of threads. The sums lie in the workspace in fp32 (fp64 for fp64) and are rounded once at the end.
#include "optimized/components/attention/online_softmax_backward.hpp"

#include "optimized/components/attention/tiles.hpp"
#include "optimized/cpu/matmul.hpp"
#include "optimized/cpu/scratch.hpp"

namespace megatoken::attention {
namespace {

using cpu::kLanes, cpu::load, cpu::store;

int64_t tiles_of(int64_t tokens) { return (tokens + kTile - 1) / kTile; }
template <class Acc> int64_t padded(int64_t width) { return (width + kLanes<Acc> - 1) / kLanes<Acc> * kLanes<Acc>; }

/// Tiles in a block: enough blocks to keep many threads busy, but large enough to be worth unpacking.
int64_t block_tiles(const Shape& shape) { return std::clamp<int64_t>(tiles_of(std::max(shape.t, shape.s)) / 16, 1, 8); }

/// What all workers share: Δ and the sums.
template <class Acc>
struct Sums {
  Acc* delta;           // b h t
  Acc *dq, *dk, *dv;    // b h tile d kTile (turned) · b hk s padded(d) · b hk s padded(dv)
  int64_t zeroed;       // numbers in dq, dk, dv together

  Sums(const Shape& shape, cpu::Arena& arena) {
    delta = arena.take<Acc>(shape.b * shape.h * shape.t);
    const int64_t begin = arena.used();
    dq = arena.take<Acc>(shape.b * shape.h * tiles_of(shape.t) * shape.d * kTile);
    dk = arena.take<Acc>(shape.b * shape.hk * shape.s * padded<Acc>(shape.d));
    dv = arena.take<Acc>(shape.b * shape.hk * shape.s * padded<Acc>(shape.dv));
    zeroed = (arena.used() - begin) / static_cast<int64_t>(sizeof(Acc));
  }
};

/// 64 queries of one head.
template <class Acc>
struct QueryTile {
  QueryTokens<Acc> tokens;
  Range range;
  Acc *q, *q_turned, *d_o, *d_o_turned;  // kTile × padded(d) · d × kTile · kTile × padded(dv) · dv × kTile
  Acc lse[kTile], delta[kTile];
};

template <class Acc>
struct Scratch {
  static constexpr int64_t kMostTiles = 8;
  Acc *k, *v, *p, *ds;                   // kTile × d · kTile × dv · kTile × kTile, keys × queries
  QueryTile<Acc> tiles[kMostTiles];

  Scratch(const Shape& shape, cpu::Arena& arena)
      : k(arena.take<Acc>(kTile * shape.d)), v(arena.take<Acc>(kTile * shape.dv)), p(arena.take<Acc>(kTile * kTile)), ds(arena.take<Acc>(kTile * kTile)) {
    for (int64_t i = 0; i < block_tiles(shape); ++i) {
      tiles[i].q = arena.take<Acc>(kTile * padded<Acc>(shape.d));
      tiles[i].q_turned = arena.take<Acc>(kTile * shape.d);
      tiles[i].d_o = arena.take<Acc>(kTile * padded<Acc>(shape.dv));
      tiles[i].d_o_turned = arena.take<Acc>(kTile * shape.dv);
    }
  }
};

template <class T>
struct Backward {
  using Acc = Accumulator<T>;
  const Shape& shape;
  const Tensors& x;
  Sums<Acc> sums;
  Elements<const T, 4> q, k, v, d_o;
  Tokens q_tokens, k_tokens;
  Elements<const Acc, 3> lse, d_lse;

  Backward(const Shape& shape, const Tensors& x, cpu::Arena& arena)
      : shape(shape), x(x), sums(shape, arena), q(x.q.elements<const T, 4>()), k(x.k.elements<const T, 4>()), v(x.v.elements<const T, 4>()),
        d_o(x.d_o.elements<const T, 4>()), q_tokens(x.q_position, x.q_document), k_tokens(x.k_position, x.k_document),
        lse(x.lse.elements<const Acc, 3>()), d_lse(x.d_lse.elements<const Acc, 3>()) {}

  void run(int threads, std::span<std::byte> memory) const {
    std::fill(sums.dq, sums.dq + sums.zeroed, Acc{0});
    dispatch_float(x.o.dtype, [&]<class O>() { compute_delta<O>(threads); });
    const int64_t rows = block_tiles(shape) * kTile, heads = shape.b * shape.hk;
    const int64_t key_blocks = (shape.s + rows - 1) / rows, query_blocks = (shape.t + rows - 1) / rows, rounds = std::max(key_blocks, query_blocks);
    for (int64_t round = 0; round < rounds; ++round)
      cpu::for_each_item<Scratch<Acc>>(heads * key_blocks, threads, shape, memory, [&](int64_t item, Scratch<Acc>& scratch) {
        const int64_t key_block = item / heads, query_block = (key_block + round) % rounds, head = item % heads;
        if (query_block < query_blocks) meet(head / shape.hk, head % shape.hk, query_block * rows, key_block * rows, scratch);
      });
    dispatch_float(x.dq.dtype, [&]<class Wide>() { write<Wide>(threads); });
  }

  /// Δ_i = do_i · o_i − dlse_i
  template <class O>
  void compute_delta(int threads) const {
    const auto o = x.o.elements<const O, 4>();
    parallel_for(shape.b * shape.h, threads, [&](int64_t head) {
      for (int64_t i = 0; i < shape.t; ++i) {
        Acc sum = 0;
        for (int64_t c = 0; c < shape.dv; ++c) sum += static_cast<Acc>(d_o(head / shape.h, i, head % shape.h, c)) * static_cast<Acc>(o(head / shape.h, i, head % shape.h, c));
        sums.delta[head * shape.t + i] = sum - d_lse(head / shape.h, head % shape.h, i);
      }
    });
  }

  /// One block of queries and one of keys of key/value head `kv_head`.
  void meet(int64_t b, int64_t kv_head, int64_t first_query, int64_t first_key, Scratch<Acc>& scratch) const {
    const int64_t rows = block_tiles(shape) * kTile;
    const int64_t query_end = std::min(first_query + rows, shape.t), key_end = std::min(first_key + rows, shape.s);
    if (sight(q_tokens.range(b, first_query, query_end), k_tokens.range(b, first_key, key_end), shape.causal) == Sight::None) return;
    for (int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
      for (int64_t i = first_query; i < query_end; i += kTile) start(scratch.tiles[(i - first_query) / kTile], b, head, i);
      for (int64_t key = first_key; key < key_end; key += kTile) meet_tile(b, head, first_query, query_end, key, scratch);
    }
  }

  /// Unpacks 64 queries. Lanes without a query, and rows without keys, get lse = +∞: their P is 0.
  void start(QueryTile<Acc>& tile, int64_t b, int64_t head, int64_t begin) const {
    const int64_t end = std::min(begin + kTile, shape.t);
    tile.tokens.load(q_tokens, b, begin, end);
    tile.range = q_tokens.range(b, begin, end);
    unpack_rows(q, q_tokens, b, head, begin, end, shape.d, tile.q, padded<Acc>(shape.d));
    unpack_rows(d_o, q_tokens, b, head, begin, end, shape.dv, tile.d_o, padded<Acc>(shape.dv));
    transpose_rows(tile.q, padded<Acc>(shape.d), end - begin, shape.d, tile.q_turned);
    transpose_rows(tile.d_o, padded<Acc>(shape.dv), end - begin, shape.dv, tile.d_o_turned);
    for (int64_t i = 0; i < kTile; ++i) {
      const bool absent = begin + i >= end || q_tokens.padding(b, begin + i) || std::isinf(lse(b, head, begin + i));
      tile.lse[i] = absent ? std::numeric_limits<Acc>::infinity() : lse(b, head, begin + i);
      tile.delta[i] = absent ? Acc{0} : sums.delta[(b * shape.h + head) * shape.t + begin + i];
    }
  }

  /// One tile of keys against the query tiles of a block.
  void meet_tile(int64_t b, int64_t head, int64_t first_query, int64_t query_end, int64_t key, Scratch<Acc>& scratch) const {
    const int64_t kv_head = head / shape.group(), end = std::min(key + kTile, shape.s), keys = end - key;
    const int64_t d = shape.d, dv = shape.dv, d_row = padded<Acc>(d), dv_row = padded<Acc>(dv), kv_row = (b * shape.hk + kv_head) * shape.s + key;
    const Range range = k_tokens.range(b, key, end);
    bool unpacked = false;
    for (int64_t i = first_query; i < query_end; i += kTile) {
      const QueryTile<Acc>& tile = scratch.tiles[(i - first_query) / kTile];
      const Sight seen = sight(tile.range, range, shape.causal);
      if (seen == Sight::None) continue;
      if (!unpacked) {
        unpack_rows(k, k_tokens, b, kv_head, key, end, d, scratch.k, d);
        unpack_rows(v, k_tokens, b, kv_head, key, end, dv, scratch.v, dv);
        unpacked = true;
      }
      const int64_t queries = std::min(kTile, query_end - i);
      cpu::multiply<Acc>(keys, kTile, d, static_cast<Acc>(shape.scale), {scratch.k, d, 1}, {tile.q_turned, kTile}, {scratch.p, kTile});
      cpu::multiply<Acc>(keys, kTile, dv, Acc{1}, {scratch.v, dv, 1}, {tile.d_o_turned, kTile}, {scratch.ds, kTile});
      if (seen == Sight::All) differentiate<false>(tile, b, key, keys, scratch);
      else differentiate<true>(tile, b, key, keys, scratch);
      cpu::multiply_add<Acc>(keys, dv_row, queries, {scratch.p, kTile, 1}, {tile.d_o, dv_row}, {sums.dv + kv_row * dv_row, dv_row});
      cpu::multiply_add<Acc>(keys, d_row, queries, {scratch.ds, kTile, 1}, {tile.q, d_row}, {sums.dk + kv_row * d_row, d_row});
      Acc* dq = sums.dq + ((b * shape.h + head) * tiles_of(shape.t) + i / kTile) * d * kTile;
      cpu::multiply_add<Acc>(d, kTile, keys, {scratch.k, 1, d}, {scratch.ds, kTile}, {dq, kTile});
    }
  }

  /// S → P in scratch.p, dP → dS in scratch.ds.
  template <bool kMasked>
  void differentiate(const QueryTile<Acc>& tile, int64_t b, int64_t key, int64_t keys, Scratch<Acc>& scratch) const {
    const auto scale = static_cast<Acc>(shape.scale);
    for (int64_t j = 0; j < keys; ++j) {
      const auto position = k_tokens.position(key + j), document = std::max(k_tokens.document(b, key + j), -1);
      for (int v = 0; v < kTile / kLanes<Acc>; ++v) {
        const int lane = v * kLanes<Acc>;
        Acc *s = scratch.p + j * kTile + lane, *dp = scratch.ds + j * kTile + lane;
        auto p = cpu::exp(load(s) - load(tile.lse + lane));
        auto ds = scale * p * (load(dp) - load(tile.delta + lane));
        if constexpr (kMasked) {
          const auto visible = tile.tokens.visible(v, position, document, shape.causal);
          p = visible ? p : cpu::all(Acc{0});
          ds = visible ? ds : cpu::all(Acc{0});
        }
        store<Acc>(s, p);
        store<Acc>(dp, ds);
      }
    }
  }

  template <class Wide>
  void write(int threads) const {
    const auto dq = x.dq.elements<Wide, 4>(), dk = x.dk.elements<Wide, 4>(), dv = x.dv.elements<Wide, 4>();
    parallel_for(shape.b * shape.h, threads, [&](int64_t head) {
      for (int64_t i = 0; i < shape.t; ++i) {
        const Acc* from = sums.dq + (head * tiles_of(shape.t) + i / kTile) * shape.d * kTile + i % kTile;
        for (int64_t c = 0; c < shape.d; ++c) dq(head / shape.h, i, head % shape.h, c) = static_cast<Wide>(from[c * kTile]);
      }
    });
    parallel_for(shape.b * shape.hk, threads, [&](int64_t head) {
      for (int64_t j = 0; j < shape.s; ++j) {
        const Acc *k_row = sums.dk + (head * shape.s + j) * padded<Acc>(shape.d), *v_row = sums.dv + (head * shape.s + j) * padded<Acc>(shape.dv);
        for (int64_t c = 0; c < shape.d; ++c) dk(head / shape.hk, j, head % shape.hk, c) = static_cast<Wide>(k_row[c]);
        for (int64_t c = 0; c < shape.dv; ++c) dv(head / shape.hk, j, head % shape.hk, c) = static_cast<Wide>(v_row[c]);
      }
    });
  }
};

}  // namespace

void online_softmax_backward(const Shape& shape, const Tensors& x, Context& context) {
  dispatch_float(x.q.dtype, [&]<class T>() {
    cpu::Arena arena(context.workspace.data());
    const Backward<T> backward(shape, x, arena);
    MEGATOKEN_CHECK(arena.used() <= std::ssize(context.workspace), "attention/online_softmax: the gradient sums need {} bytes of workspace, {} are given", arena.used(),
                    context.workspace.size());
    backward.run(context.threads, context.workspace.subspan(static_cast<size_t>(arena.used())));
  });
}

int64_t online_softmax_backward_workspace(const Shape& shape, DType dtype) {
  const auto bytes = [&]<class Acc>() {
    return cpu::scratch_bytes<Sums<Acc>>(shape) + hardware_threads() * cpu::scratch_bytes<Scratch<Acc>>(shape);
  };
  return dtype == DType::F64 ? bytes.template operator()<double>() : bytes.template operator()<float>();
}

}  // namespace megatoken::attention
