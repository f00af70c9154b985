// index_topk: the formulas of index_topk.hpp. All scores are kept in the workspace; the k-th largest is found bit by bit.
#pragma once
#include <bit>
#include <limits>

#include "reference/components/index_topk/index_topk.hpp"
#include "reference/components/pool_keys/pools.hpp"
#include "reference/core/host_device.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::index_topk {

/// Integers in the order of scores: a higher score has a higher key, both zeros have the same one, NaN has 0.
MEGATOKEN_HD inline uint64_t order_key(double score) {
  if (score != score) return 0;
  const uint64_t bits = std::bit_cast<uint64_t>(score + 0.0), sign = uint64_t{1} << 63;
  return bits & sign ? ~bits : bits | sign;
}
MEGATOKEN_HD inline uint32_t order_key(float score) {
  if (score != score) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f), sign = uint32_t{1} << 31;
  return bits & sign ? ~bits : bits | sign;
}

/// What one query sees: the tokens [start, own] of its document, and so the pools in rows [begin, end) that lie in them.
struct Sight {
  int64_t pool = 1, start = 0, own = -1, begin = 0, end = 0;  // as it stands: of a padding query

  MEGATOKEN_HD bool has(int64_t first) const { return first >= start && first + pool - 1 <= own; }
  MEGATOKEN_HD int64_t tail() const { return start + (own + 1 - start) / pool * pool; }
};

template <class Acc>
struct Scratch {
  Acc* score;      // b t s/pool
  int64_t* first;  // b s/pool: the first token of each row's pool, −1 without one
  Scratch(const Shape& s, std::byte* memory)
      : score(reinterpret_cast<Acc*>(memory + s.b * s.rows() * static_cast<int64_t>(sizeof(int64_t)))), first(reinterpret_cast<int64_t*>(memory)) {}
};

inline int64_t workspace_bytes(const Shape& s, DType dtype, Phase) { return s.b * s.rows() * (8 + s.t * size_of(accumulator_of(dtype))); }

template <class T, class Loop>
void forward_loops(const Shape& s, const Tensors& v, const Context& context, const Loop& loop) {
  using Acc = Accumulator<T>;
  const Scratch<Acc> scratch(s, context.workspace.data());
  const auto q = v.q.elements<const T, 4>();
  const auto w = v.w.elements<const Acc, 3>();
  const auto k = v.k.elements<const T, 3>();
  const auto position = v.position.elements<const int32_t, 1>();
  const auto document = v.document.elements<const int32_t, 2>();
  const auto id = v.id.elements<int32_t, 3>();
  const auto chosen_score = v.score.elements<Acc, 3>();
  const int64_t t = s.t, tokens = s.s, h = s.h, d = s.d, pool = s.pool, topk = s.topk, rows = s.rows(), width = s.width();
  const Acc scale = static_cast<Acc>(s.scale);

  const auto sight = [=] MEGATOKEN_HD(int64_t b, int64_t i) {
    const int64_t own = position(i);
    if (own < 0 || own >= tokens || document(b, own) < 0) return Sight{};
    const int64_t start = pool_keys::document_start(document, b, own);
    return Sight{pool, start, own, start / pool, own + 1 < start + pool ? start / pool : (own + 1) / pool};
  };

  loop(s.b * rows, "index_topk pools", [=] MEGATOKEN_HD(int64_t item) { scratch.first[item] = pool_keys::pool_of_row(document, item / rows, item % rows, tokens, pool); });

  loop(s.b * t * rows, "index_topk scores", [=] MEGATOKEN_HD(int64_t item) {
    const int64_t b = item / (t * rows), i = item / rows % t, row = item % rows;
    if (!sight(b, i).has(scratch.first[b * rows + row])) return;
    Acc sum = 0;
    for (int64_t head = 0; head < h; ++head) {
      Acc dot = 0;
      for (int64_t c = 0; c < d; ++c) dot += static_cast<Acc>(q(b, i, head, c)) * static_cast<Acc>(k(b, row, c));
      if (!(dot <= 0)) sum += w(b, i, head) * dot;  // a NaN stays visible
    }
    scratch.score[item] = scale * sum;
  });

  loop(s.b * t, "index_topk choice", [=] MEGATOKEN_HD(int64_t item) {
    using Key = decltype(order_key(Acc{}));
    const int64_t b = item / t, i = item % t;
    const Sight range = sight(b, i);
    const int64_t* first = scratch.first + b * rows;
    const Acc* score = scratch.score + item * rows;
    const auto count_from = [&](Key key) {
      int64_t count = 0;
      for (int64_t row = range.begin; row < range.end; ++row) count += range.has(first[row]) && order_key(score[row]) >= key;
      return count;
    };
    const int64_t all = count_from(0), chosen = all < topk ? all : topk;
    Key lowest = 0;  // the key of the last one chosen: the largest key that at least `chosen` candidates reach
    for (int bit = static_cast<int>(8 * sizeof(Key)) - 1; bit >= 0; --bit)
      if (const Key higher = lowest | Key{1} << bit; chosen > 0 && count_from(higher) >= chosen) lowest = higher;
    int64_t ties = chosen;  // how many with exactly that key are chosen: those with the lowest ids
    for (int64_t row = range.begin; row < range.end; ++row) ties -= range.has(first[row]) && order_key(score[row]) > lowest;

    int64_t slot = 0, out = 0;
    for (int64_t row = range.begin; row < range.end; ++row) {
      if (!range.has(first[row]) || order_key(score[row]) < lowest || (order_key(score[row]) == lowest && ties-- <= 0)) continue;
      chosen_score(b, i, slot++) = score[row];
      for (int64_t j = 0; j < pool; ++j) id(b, i, out++) = static_cast<int32_t>(first[row] + j);
    }
    for (int64_t j = range.tail(); j <= range.own; ++j) id(b, i, out++) = static_cast<int32_t>(j);
    while (slot < topk) chosen_score(b, i, slot++) = -std::numeric_limits<Acc>::infinity();
    while (out < width) id(b, i, out++) = -1;
  });
}

}  // namespace megatoken::index_topk
