// attention/online_softmax, forward: o_i = Σ_j e^{S_ij − lse_i} v_j with a running maximum, tile by tile, so that no row of S
// is ever whole:
//   for each tile of keys:  S = scale · K qᵀ;  m' = max(m, max_j S);  P = e^{S − m'};  l ← l e^{m − m'} + Σ_j P;  o ← o e^{m − m'} + vᵀ P
// What makes it quick: every tile is held turned (keys down, 64 queries across), so maximum, sum and rescaling are plain vector
// operations, and K and V are only read number by number, which needs no packing beyond unpacking to fp32. A work item is 512
// queries of one head against all keys; tiles where nothing is visible are skipped, tiles where all is visible need no mask.
// Sums are fp32 (fp64 for fp64); the rounding of o to a narrower dtype comes last, once.
#include "optimized/components/attention/online_softmax_backward.hpp"
#include "optimized/components/attention/tiles.hpp"
#include "optimized/cpu/matmul.hpp"
#include "optimized/cpu/scratch.hpp"

namespace megatoken::attention {
namespace {

using cpu::kLanes, cpu::load, cpu::store;

constexpr int64_t kBlockTiles = 8;  // tiles of queries that share the unpacked K and V
template <class Acc> constexpr Acc kNone = -std::numeric_limits<Acc>::infinity();

/// 64 queries of one head and what is known of their rows so far.
template <class Acc>
struct QueryTile {
  static constexpr int kVectors = kTile / kLanes<Acc>;
  QueryTokens<Acc> tokens;
  Range range;
  Acc *q, *o;                      // d × kTile · dv × kTile
  Acc largest[kTile], sum[kTile];  // m · l

  void start(int64_t dv) {
    std::fill(largest, largest + kTile, kNone<Acc>);
    std::fill(sum, sum + kTile, Acc{0});
    std::fill(o, o + dv * kTile, Acc{0});
  }

  /// −∞ for pairs that are not visible. scores: keys × kTile
  void hide(Acc* scores, const Tokens& k, int64_t b, int64_t first_key, int64_t keys, bool causal) const {
    for (int64_t j = 0; j < keys; ++j) {
      const auto position = k.position(first_key + j), document = std::max(k.document(b, first_key + j), -1);
      for (int v = 0; v < kVectors; ++v) {
        Acc* s = scores + j * kTile + v * kLanes<Acc>;
        store<Acc>(s, tokens.visible(v, position, document, causal) ? load(s) : cpu::all(kNone<Acc>));
      }
    }
  }

  /// Takes the maximum and the sum of a tile of scores in, turns the scores into e^{S − m'} and rescales o to m'.
  void absorb(Acc* scores, int64_t keys, int64_t dv) {
    cpu::Vector<Acc> top[kVectors], decay[kVectors];
    for (int v = 0; v < kVectors; ++v) top[v] = load(largest + v * kLanes<Acc>);
    for (int64_t j = 0; j < keys; ++j)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const auto s = load(scores + j * kTile + v * kLanes<Acc>);
        top[v] = s > top[v] ? s : top[v];
      }
    bool grew = false;
    for (int v = 0; v < kVectors; ++v) {
      Acc *m = largest + v * kLanes<Acc>, *l = sum + v * kLanes<Acc>, *s = scores + v * kLanes<Acc>;
      const auto base = top[v] == kNone<Acc> ? cpu::all(Acc{0}) : top[v];  // a row without keys so far: −∞ − −∞ is no number
      decay[v] = cpu::exp(load(m) - base);
      grew |= cpu::any<cpu::LaneInt<Acc>>(load(m) != top[v]);
      auto total = load(l) * decay[v];
      for (int64_t j = 0; j < keys; ++j) {
        const auto p = cpu::exp(load(s + j * kTile) - base);
        store<Acc>(s + j * kTile, p);
        total += p;
      }
      store<Acc>(l, total);
      store<Acc>(m, top[v]);
    }
    if (!grew) return;
    for (int64_t c = 0; c < dv; ++c)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        Acc* at = o + c * kTile + v * kLanes<Acc>;
        store<Acc>(at, load(at) * decay[v]);
      }
  }
};

template <class Acc>
struct Scratch {
  Acc *k, *v, *rows, *scores;  // kTile × d · kTile × dv · kTile × d · kTile × kTile
  QueryTile<Acc> tiles[kBlockTiles];

  Scratch(const Shape& shape, cpu::Arena& arena)
      : k(arena.take<Acc>(kTile * shape.d)), v(arena.take<Acc>(kTile * shape.dv)), rows(arena.take<Acc>(kTile * shape.d)), scores(arena.take<Acc>(kTile * kTile)) {
    for (auto& tile : tiles) tile.q = arena.take<Acc>(shape.d * kTile), tile.o = arena.take<Acc>(shape.dv * kTile);
  }
};

template <class T, class Wide>
struct Forward {
  using Acc = Accumulator<T>;
  const Shape& shape;
  Elements<const T, 4> q, k, v;
  Tokens q_tokens, k_tokens;
  Elements<Wide, 4> o;
  Elements<Acc, 3> lse;

  Forward(const Shape& shape, const Tensors& x)
      : shape(shape), q(x.q.elements<const T, 4>()), k(x.k.elements<const T, 4>()), v(x.v.elements<const T, 4>()), q_tokens(x.q_position, x.q_document),
        k_tokens(x.k_position, x.k_document), o(x.o.elements<Wide, 4>()), lse(x.lse.elements<Acc, 3>()) {}

  void run(Context& context) const {
    const int64_t heads = shape.b * shape.h, blocks = (shape.t + kBlockTiles * kTile - 1) / (kBlockTiles * kTile);
    cpu::for_each_item<Scratch<Acc>>(heads * blocks, context.threads, shape, context.workspace, [&](int64_t item, Scratch<Acc>& scratch) {
      const int64_t head = item % heads, block = blocks - 1 - item / heads;  // causal: the long ones first
      attend(head / shape.h, head % shape.h, block * kBlockTiles * kTile, scratch);
    });
  }

  /// The queries [begin, begin + 512) of one head against all keys.
  void attend(int64_t b, int64_t head, int64_t begin, Scratch<Acc>& scratch) const {
    const int64_t end = std::min(begin + kBlockTiles * kTile, shape.t), tiles = (end - begin + kTile - 1) / kTile;
    for (int64_t i = 0; i < tiles; ++i) start(scratch.tiles[i], b, head, begin + i * kTile, end, scratch.rows);
    for (int64_t key = 0; key < shape.s; key += kTile) {
      const int64_t key_end = std::min(key + kTile, shape.s);
      const Range range = k_tokens.range(b, key, key_end);
      bool unpacked = false;
      for (int64_t i = 0; i < tiles; ++i) {
        QueryTile<Acc>& tile = scratch.tiles[i];
        const Sight seen = sight(tile.range, range, shape.causal);
        if (seen == Sight::None) continue;
        if (!unpacked) {
          unpack_rows(k, k_tokens, b, head / shape.group(), key, key_end, shape.d, scratch.k, shape.d);
          unpack_rows(v, k_tokens, b, head / shape.group(), key, key_end, shape.dv, scratch.v, shape.dv);
          unpacked = true;
        }
        cpu::multiply<Acc>(key_end - key, kTile, shape.d, static_cast<Acc>(shape.scale), {scratch.k, shape.d, 1}, {tile.q, kTile}, {scratch.scores, kTile});
        if (seen == Sight::Some) tile.hide(scratch.scores, k_tokens, b, key, key_end - key, shape.causal);
        tile.absorb(scratch.scores, key_end - key, shape.dv);
        cpu::multiply_add<Acc>(shape.dv, kTile, key_end - key, {scratch.v, 1, shape.dv}, {scratch.scores, kTile}, {tile.o, kTile});
      }
    }
    for (int64_t i = 0; i < tiles; ++i) finish(scratch.tiles[i], b, head, begin + i * kTile, end);
  }

  void start(QueryTile<Acc>& tile, int64_t b, int64_t head, int64_t begin, int64_t end, Acc* rows) const {
    end = std::min(begin + kTile, end);
    tile.tokens.load(q_tokens, b, begin, end);
    tile.range = q_tokens.range(b, begin, end);
    unpack_rows(q, q_tokens, b, head, begin, end, shape.d, rows, shape.d);
    transpose_rows(rows, shape.d, end - begin, shape.d, tile.q);
    tile.start(shape.dv);
  }

  void finish(const QueryTile<Acc>& tile, int64_t b, int64_t head, int64_t begin, int64_t end) const {
    end = std::min(begin + kTile, end);
    for (int64_t i = 0; i < end - begin; ++i) {
      const Acc sum = tile.sum[i];
      lse(b, head, begin + i) = sum == 0 ? kNone<Acc> : tile.largest[i] + std::log(sum);
      for (int64_t c = 0; c < shape.dv; ++c) o(b, begin + i, head, c) = static_cast<Wide>(sum == 0 ? Acc{0} : tile.o[c * kTile + i] / sum);
    }
  }
};

/// o in the inputs' dtype, or in the accumulator's when a scheme merges blocks.
void forward(const Shape& shape, const Tensors& x, Context& context) {
  dispatch_float(x.q.dtype, [&]<class T>() {
    if (x.o.dtype == x.q.dtype) Forward<T, T>(shape, x).run(context);
    else Forward<T, Accumulator<T>>(shape, x).run(context);
  });
}

int64_t workspace(const Shape& shape, DType dtype, Phase phase) {
  const int64_t worker = dtype == DType::F64 ? cpu::scratch_bytes<Scratch<double>>(shape) : cpu::scratch_bytes<Scratch<float>>(shape);
  const int64_t forward = hardware_threads() * worker;
  return phase == Phase::Forward ? forward : std::max(forward, online_softmax_backward_workspace(shape, dtype));
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "online_softmax",
    .about = "blocked, running maximum, vectors of queries, all threads",
    .workspace = workspace,
    .forward = forward,
    .backward = online_softmax_backward,
})};

}  // namespace
}  // namespace megatoken::attention
