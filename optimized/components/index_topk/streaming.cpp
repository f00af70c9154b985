// index_topk/streaming: exact selection without ever holding the scores of a row. A work item is 16 queries. It walks over the pools in tiles
// of 64, from the last one a query sees back to the first, because recent keys tend to score high and raise the bar early. Each query keeps
// a buffer of candidates that reach its bar; when the buffer is full the best topk stay and the worst of them becomes the bar. Nothing is
// ever dropped that could belong to the result: a candidate below the bar has topk others before it in the total order, and one that equals
// the bar is kept, because it has a lower id than everything before. Memory: topk candidates a query in flight.
// Every score is one chain of operations (sum over d, then over heads) whatever tile, block or thread it falls into, so the bits never change.
#include <algorithm>

#include "optimized/cpu/matmul.hpp"
#include "optimized/cpu/rows.hpp"
#include "optimized/cpu/scratch.hpp"
#include "optimized/cpu/transpose.hpp"
#include "reference/components/index_topk/index_topk.hpp"
#include "reference/components/pool_keys/pools.hpp"

namespace megatoken::index_topk {
namespace {

using cpu::kLanes, cpu::load, cpu::store;

constexpr int64_t kQueries = 16, kTile = 64;
template <class Acc> constexpr Acc kNone = -std::numeric_limits<Acc>::infinity();

template <class Acc>
struct Candidate {
  Acc score;
  int32_t row;

  /// The total order: higher score, then lower id; NaN last.
  bool before(const Candidate& other) const {
    const bool nan = score != score, other_nan = other.score != other.score;
    if (nan || other_nan) return nan ? other_nan && row < other.row : true;
    return score > other.score || (score == other.score && row < other.row);
  }
};

/// What one query sees, and its best candidates so far.
template <class Acc>
struct Query {
  int64_t start = 0, own = -1, begin = 0, end = 0;  // tokens [start, own], pools in rows [begin, end)
  Candidate<Acc>* best = nullptr;
  int64_t count = 0;
  Acc bar = kNone<Acc>;

  /// Leaves the topk best; the worst of them is the bar.
  void keep(int64_t topk) {
    if (count <= topk) return;
    const auto last = best + topk - 1;
    std::nth_element(best, last, best + count, [](const auto& a, const auto& b) { return a.before(b); });
    count = topk;
    bar = last->score;
  }
};

/// For all workers: the first token of the pool in each row, −1 without one.
struct Pools {
  int64_t* first;  // b s/pool
  Pools(const Shape& shape, cpu::Arena& arena) : first(arena.take<int64_t>(shape.b * shape.rows())) {}
};

template <class Acc>
struct Scratch {
  Acc *q, *w, *rows, *k, *products, *scores;  // kQueries·h × d · kQueries × h · kTile × padded d · turned · kQueries·h × kTile · kTile
  Query<Acc> queries[kQueries];

  static int64_t padded(int64_t d) { return (d + kLanes<Acc> - 1) / kLanes<Acc> * kLanes<Acc>; }

  Scratch(const Shape& s, cpu::Arena& arena)
      : q(arena.take<Acc>(kQueries * s.h * s.d)), w(arena.take<Acc>(kQueries * s.h)), rows(arena.take<Acc>(kTile * padded(s.d))), k(arena.take<Acc>(padded(s.d) * kTile)),
        products(arena.take<Acc>(kQueries * s.h * kTile)), scores(arena.take<Acc>(kTile)) {
    for (auto& query : queries) query.best = arena.take<Candidate<Acc>>(2 * s.topk + kTile);
  }
};

template <class T>
struct Selection {
  using Acc = Accumulator<T>;
  const Shape& shape;
  const int64_t* first;
  Elements<const T, 4> q;
  Elements<const Acc, 3> w;
  Elements<const T, 3> k;
  Elements<const int32_t, 1> position;
  Elements<const int32_t, 2> document;
  Elements<int32_t, 3> id;
  Elements<Acc, 3> score;

  Selection(const Shape& s, const Tensors& x, const Pools& pools)
      : shape(s), first(pools.first), q(x.q.elements<const T, 4>()), w(x.w.elements<const Acc, 3>()), k(x.k.elements<const T, 3>()), position(x.position.elements<const int32_t, 1>()),
        document(x.document.elements<const int32_t, 2>()), id(x.id.elements<int32_t, 3>()), score(x.score.elements<Acc, 3>()) {}

  void start(Query<Acc>& query, int64_t b, int64_t i) const {
    query.own = position(i);
    query.start = query.begin = query.end = query.count = 0;
    query.bar = kNone<Acc>;
    if (document(b, query.own) < 0) {
      query.own = -1;
      return;
    }
    query.start = pool_keys::document_start(document, b, query.own);
    query.begin = query.start / shape.pool;
    query.end = query.own + 1 < query.start + shape.pool ? query.begin : (query.own + 1) / shape.pool;
  }

  /// The queries [i, i + count) of batch row b.
  void select(int64_t b, int64_t i, int64_t count, Scratch<Acc>& scratch) const {
    int64_t begin = shape.rows(), end = 0;
    for (int64_t j = 0; j < count; ++j) {
      start(scratch.queries[j], b, i + j);
      begin = std::min(begin, scratch.queries[j].begin), end = std::max(end, scratch.queries[j].end);
      for (int64_t head = 0; head < shape.h; ++head) {
        scratch.w[j * shape.h + head] = w(b, i + j, head);
        for (int64_t c = 0; c < shape.d; ++c) scratch.q[(j * shape.h + head) * shape.d + c] = static_cast<Acc>(q(b, i + j, head, c));
      }
    }
    for (int64_t tile = (end - 1) / kTile * kTile; end > 0 && tile + kTile > begin && tile >= 0; tile -= kTile) meet(b, tile, count, scratch);
    for (int64_t j = 0; j < count; ++j) finish(scratch.queries[j], b, i + j);
  }

  /// One tile of pools against all queries of the item that see some of it.
  void meet(int64_t b, int64_t tile, int64_t count, Scratch<Acc>& scratch) const {
    const int64_t rows = std::min(kTile, shape.rows() - tile), h = shape.h;
    const int64_t width = Scratch<Acc>::padded(shape.d);
    std::fill(scratch.rows, scratch.rows + kTile * width, Acc{0});
    for (int64_t p = 0; p < rows; ++p) cpu::widen(&k(b, tile + p, 0), k.stride[2], shape.d, scratch.rows + p * width);
    cpu::transpose(kTile, width, scratch.rows, width, scratch.k, kTile);
    cpu::multiply<Acc>(count * h, kTile, shape.d, Acc{1}, {scratch.q, shape.d}, {scratch.k, kTile}, {scratch.products, kTile});
    for (int64_t j = 0; j < count; ++j) {
      Query<Acc>& query = scratch.queries[j];
      const int64_t from = std::max(query.begin, tile), to = std::min(query.end, tile + kTile);
      if (from >= to) continue;
      add_heads(scratch.products + j * h * kTile, scratch.w + j * h, scratch.scores);
      if (reach(scratch.scores, query.bar)) collect(query, b, from, to, scratch.scores - tile);
      if (query.count > 2 * shape.topk) query.keep(shape.topk);
    }
  }

  /// scores_p = scale · Σ_h w_h ReLU(products_hp); a NaN stays visible
  void add_heads(const Acc* products, const Acc* weight, Acc* scores) const {
    constexpr int kVectors = kTile / kLanes<Acc>;
    cpu::Vector<Acc> sum[kVectors] = {};
    for (int64_t head = 0; head < shape.h; ++head)
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const auto x = load(products + head * kTile + v * kLanes<Acc>);
        sum[v] += weight[head] * (x <= Acc{0} ? cpu::Vector<Acc>{} : x);
      }
    for (int v = 0; v < kVectors; ++v) store<Acc>(scores + v * kLanes<Acc>, static_cast<Acc>(shape.scale) * sum[v]);
  }

  /// Whether some score of a tile is not below the bar.
  static bool reach(const Acc* scores, Acc bar) {
    cpu::Vector<cpu::LaneInt<Acc>> below = load(scores) < bar;
    for (int64_t v = kLanes<Acc>; v < kTile; v += kLanes<Acc>) below &= load(scores + v) < bar;
    return cpu::any<cpu::LaneInt<Acc>>(~below);
  }

  /// Rows [from, to), last one first: those that reach the bar and belong to the query become candidates.
  void collect(Query<Acc>& query, int64_t b, int64_t from, int64_t to, const Acc* scores) const {
    for (int64_t row = to - 1; row >= from; --row) {
      const int64_t token = first[b * shape.rows() + row];
      if (scores[row] < query.bar || token < query.start || token + shape.pool - 1 > query.own) continue;
      query.best[query.count++] = {scores[row], static_cast<int32_t>(row)};
    }
  }

  void finish(Query<Acc>& query, int64_t b, int64_t i) const {
    query.keep(shape.topk);
    std::sort(query.best, query.best + query.count, [](const auto& x, const auto& y) { return x.row < y.row; });
    int64_t out = 0;
    for (int64_t slot = 0; slot < shape.topk; ++slot) {
      score(b, i, slot) = slot < query.count ? query.best[slot].score : kNone<Acc>;
      for (int64_t j = 0; slot < query.count && j < shape.pool; ++j) id(b, i, out++) = static_cast<int32_t>(first[b * shape.rows() + query.best[slot].row] + j);
    }
    for (int64_t j = query.start + (query.own + 1 - query.start) / shape.pool * shape.pool; j <= query.own; ++j) id(b, i, out++) = static_cast<int32_t>(j);
    while (out < shape.width()) id(b, i, out++) = -1;
  }
};

void forward(const Shape& shape, const Tensors& x, Context& context) {
  check_positions(shape, x);
  cpu::Arena arena(context.workspace.data());
  const Pools pools(shape, arena);
  const auto document = x.document.elements<const int32_t, 2>();
  parallel_for(shape.b * ((shape.rows() + 1023) / 1024), context.threads, [&](int64_t block) {
    const int64_t blocks = (shape.rows() + 1023) / 1024, b = block / blocks, begin = block % blocks * 1024;
    for (int64_t row = begin; row < std::min(shape.rows(), begin + 1024); ++row) pools.first[b * shape.rows() + row] = pool_keys::pool_of_row(document, b, row, shape.s, shape.pool);
  });
  dispatch_float(x.q.dtype, [&]<class T>() {
    using Acc = Accumulator<T>;
    const Selection<T> selection(shape, x, pools);
    const int64_t blocks = (shape.t + kQueries - 1) / kQueries;
    cpu::for_each_item<Scratch<Acc>>(shape.b * blocks, context.threads, shape, context.workspace.subspan(static_cast<size_t>(arena.used())), [&](int64_t item, Scratch<Acc>& scratch) {
      const int64_t begin = (blocks - 1 - item / shape.b) * kQueries;  // long rows first
      selection.select(item % shape.b, begin, std::min(kQueries, shape.t - begin), scratch);
    });
  });
}

int64_t workspace(const Shape& shape, DType dtype, Phase) {
  return cpu::scratch_bytes<Pools>(shape) + hardware_threads() * (dtype == DType::F64 ? cpu::scratch_bytes<Scratch<double>>(shape) : cpu::scratch_bytes<Scratch<float>>(shape));
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "streaming",
    .about = "tiles of pools from the diagonal back, a rising bar, no scores kept",
    .workspace = workspace,
    .forward = forward,
})};

}  // namespace
}  // namespace megatoken::index_topk
