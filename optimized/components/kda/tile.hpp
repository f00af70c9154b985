// kda: one chunk of one value head, unpacked, with every factor that needs no state.
//   Akk, Aqk in 16-row blocks: pairs in one block by diagonal_scores, pairs of blocks as products of rows decayed from the entry of the
//   later block (∏ up to the row) and keys decayed to it. Every factor is a product of decays e^g ≤ 1 that lie behind the row it
//   belongs to ("past-only anchors"), so nothing overflows, rows never depend on later ones, and gates of −1000 are as exact as others.
// Rows behind the last token are neutral: decay 1, all else 0.
#pragma once
#include <vector>

#include "optimized/components/kda/gate.hpp"
#include "optimized/components/kda/triangle.hpp"
#include "optimized/cpu/matmul.hpp"
#include "optimized/cpu/rows.hpp"
#include "optimized/cpu/scratch.hpp"
#include "optimized/cpu/transpose.hpp"

namespace megatoken::kda {

/// Widths padded to whole vectors. A wider `v` carries further columns of the state whose values are 0.
struct Widths {
  int64_t d, dv, k, v;
  static int64_t padded(int64_t width) { return (width + kBlock - 1) / kBlock * kBlock; }
  explicit Widths(const Shape& shape, int64_t more_columns = 0)
      : d(shape.d), dv(shape.dv), k(padded(shape.d)), v(padded(shape.dv) + more_columns) {}
};

/// Where a chunk lies; `fresh`: the state is zero in front of it.
struct ChunkPlace {
  int64_t begin, count;
  bool fresh;
};
inline std::vector<ChunkPlace> chunk_places(const Elements<const int32_t, 2>& document, int64_t b, int64_t t) {
  std::vector<ChunkPlace> places;
  for (const Run& run : document_runs(document, b, t))
    for (int64_t begin = run.begin; begin < run.end; begin += kRows)
      places.push_back({begin, std::min<int64_t>(kRows, run.end - begin), begin == run.begin && begin > 0});
  return places;
}

/// The tensors of one batch row and value head.
template <class T>
struct HeadInputs {
  using Real = Accumulator<T>;
  const Shape& shape;
  Elements<const T, 4> q, k, beta;
  Elements<const T, 5> v, g;
  int64_t b, h, n;
  GateOfHead<Real> gate;

  /// `bias` holds padded d numbers of scratch.
  HeadInputs(const Shape& shape, const Tensors& x, int64_t b, int64_t h, int64_t n, Real* bias)
      : shape(shape), q(x.q.elements<const T, 4>()), k(x.k.elements<const T, 4>()), beta(x.beta.elements<const T, 4>()), v(x.v.elements<const T, 5>()),
        g(x.g.elements<const T, 5>()), b(b), h(h), n(n) {
    gate.form = shape.gate;
    if (shape.gate == Gate::Given) return;
    const auto dt_bias = x.dt_bias.elements<const Real, 3>();
    cpu::widen_padded(&dt_bias(h, n, 0), dt_bias.stride[2], shape.d, Widths::padded(shape.d), bias);
    gate = {shape.gate, static_cast<Real>(shape.lower_bound), std::exp(x.a_log.elements<const Real, 2>()(h, n)), bias};
  }
};

/// kTall rows: 64, a chunk, or 16, a chunk of one block.
template <class Real, int kTall>
struct Tile {
  const Widths width;
  int64_t count = 0, rows = 0;               // tokens; rows of whole blocks
  Real *qg, *minus_bk;                       // rows × k: q and −β k decayed from the entry of the chunk
  Real *bv;                                  // rows × v: β v
  Real *keys;                                // k × kTall: turned keys decayed to the end of the chunk, kgᵀ
  Real *minus_akk, *aqk;                     // rows × kTall: −Akk (strictly lower), Aqk
  Real *total, *block_total;                 // k · blocks × k: decay over the chunk, over each block
  Real beta[kTall], q_factor[kTall], k_factor[kTall];
  // Rows × k of every block when kept, for backward, else of the block at hand only: those stay in the fastest cache.
  Real *q, *k, *step_key, *decay;            // scale · normalised q, normalised k, β k, e^g
  Real *q_block, *step_key_block;            // decayed from the entry of the row's block; not filled when there is one block

  Tile(const Widths& width, cpu::Arena& arena) : width(width) {
    for (Real** array : {&qg, &minus_bk, &q, &k, &step_key, &decay, &q_block, &step_key_block}) *array = arena.take<Real>(kTall * width.k);
    bv = arena.take<Real>(kTall * width.v);
    minus_akk = arena.take<Real>(kTall * kTall);
    aqk = arena.take<Real>(kTall * kTall);
    keys = arena.take<Real>(width.k * kTall);
    total = arena.take<Real>(width.k);
    block_total = arena.take<Real>(kTall / kBlock * width.k);
    for (Real** array : {&raw_q_, &raw_k_, &raw_g_, &raw_v_}) *array = arena.take<Real>(width.k + width.v);
  }
  int64_t blocks() const { return rows / kBlock; }

  template <class T>
  void prepare(const HeadInputs<T>& in, const ChunkPlace& place, bool keep_rows) {
    count = place.count;
    rows = (count + kBlock - 1) / kBlock * kBlock;
    std::fill_n(total, width.k, Real{1});
    for (int64_t block = 0; block < blocks(); ++block) {
      const int64_t first = keep_rows ? block * kBlock : 0;
      std::fill_n(block_total + block * width.k, width.k, Real{1});
      for (int64_t i = 0; i < kBlock; ++i) {
        const int64_t row = block * kBlock + i;
        if (row < count) load_row(in, place.begin + row, row, (first + i) * width.k);
        else neutral_row(row, (first + i) * width.k);
      }
      score(block, first * width.k);
      for (int64_t c = 0; c < width.k; c += kLanes<Real>) store<Real>(total + c, load(total + c) * load(block_total + block * width.k + c));
    }
  }

 private:
  /// Row i from token t. The products of decays since the entries of block and chunk run along in block_total and total.
  template <class T>
  void load_row(const HeadInputs<T>& in, int64_t t, int64_t i, int64_t at) {
    const Shape& shape = in.shape;
    const int64_t k_width = width.k;
    const Real* const from_q = cpu::readable(&in.q(in.b, t, in.h, 0), in.q.stride[3], width.d, k_width, raw_q_);
    const Real* const from_k = cpu::readable(&in.k(in.b, t, in.h, 0), in.k.stride[3], width.d, k_width, raw_k_);
    const Real* const from_g = cpu::readable(&in.g(in.b, t, in.h, in.n, 0), in.g.stride[4], width.d, k_width, raw_g_);
    const Real* const from_v = cpu::readable(&in.v(in.b, t, in.h, in.n, 0), in.v.stride[4], width.dv, width.v, raw_v_);
    Real *const q_row = q + at, *const k_row = k + at, *const decay_row = decay + at, *const step_row = step_key + at;
    Real *const q_block_row = q_block + at, *const step_block_row = step_key_block + at;
    Real *const qg_row = qg + i * k_width, *const minus_bk_row = minus_bk + i * k_width, *const bv_row = bv + i * width.v;
    Real* const product = block_total + i / kBlock * k_width;
    const Real* const entry = total;
    const Real step = step_size<Real>(shape.beta, static_cast<Real>(in.beta(in.b, t, in.h, in.n))), eps = static_cast<Real>(shape.eps);
    const Real q_norm = shape.l2norm ? 1 / std::sqrt(dot(from_q, from_q, k_width) + eps) : Real{1};
    const Real k_norm = shape.l2norm ? 1 / std::sqrt(dot(from_k, from_k, k_width) + eps) : Real{1};
    const Real q_scale = q_norm * static_cast<Real>(shape.scale);
    const GateOfHead<Real> gate = in.gate;
    const int64_t ahead = std::min(t + 12, shape.t - 1);  // rows of several heads lie too far apart for the hardware to foresee
    const T *const next_q = &in.q(in.b, ahead, in.h, 0), *const next_k = &in.k(in.b, ahead, in.h, 0), *const next_g = &in.g(in.b, ahead, in.h, in.n, 0);
    const T* const next_v = &in.v(in.b, ahead, in.h, in.n, 0);
    beta[i] = step;
    q_factor[i] = q_norm;
    k_factor[i] = k_norm;
    for (int64_t c = 0; c < k_width; c += kLanes<Real>) {
      __builtin_prefetch(next_q + c);
      __builtin_prefetch(next_k + c);
      __builtin_prefetch(next_g + c);
      const Vector<Real> one = gate.decay(load(from_g + c), c), decayed = load(product + c) * one;
      const Vector<Real> since_entry = kTall == kBlock ? decayed : decayed * load(entry + c);
      const Vector<Real> query = load(from_q + c) * q_scale, key = load(from_k + c) * k_norm, step_key = key * step;
      store<Real>(q_row + c, query);
      store<Real>(k_row + c, key);
      store<Real>(step_row + c, step_key);
      store<Real>(decay_row + c, one);
      store<Real>(product + c, decayed);
      if constexpr (kTall > kBlock) {
        store<Real>(q_block_row + c, query * decayed);
        store<Real>(step_block_row + c, step_key * decayed);
      }
      store<Real>(qg_row + c, query * since_entry);
      store<Real>(minus_bk_row + c, -step_key * since_entry);
    }
    for (int64_t e = 0; e < width.v; e += kLanes<Real>) {
      __builtin_prefetch(next_v + e);
      store<Real>(bv_row + e, load(from_v + e) * step);
    }
  }
  void neutral_row(int64_t i, int64_t at) {
    for (Real* array : {q, k, step_key, q_block, step_key_block}) std::fill_n(array + at, width.k, Real{0});
    std::fill_n(decay + at, width.k, Real{1});
    for (Real* array : {qg, minus_bk}) std::fill_n(array + i * width.k, width.k, Real{0});
    std::fill_n(bv + i * width.v, width.v, Real{0});
    beta[i] = 0;
    q_factor[i] = k_factor[i] = 1;
  }

  /// Akk and Aqk of the rows of one block. Up to here keys are decayed to its entry, afterwards to its end.
  void score(int64_t block, int64_t at) {
    const int64_t before = block * kBlock;
    Real *akk_rows = minus_akk + before * kTall, *aqk_rows = aqk + before * kTall, *own = keys + before;
    cpu::transpose(kBlock, width.k, k + at, width.k, own, kTall);
    if (block > 0) {
      cpu::multiply<Real>(kBlock, before, width.d, -1, {step_key_block + at, width.k}, {keys, kTall}, {akk_rows, kTall});
      cpu::multiply<Real>(kBlock, before, width.d, 1, {q_block + at, width.k}, {keys, kTall}, {aqk_rows, kTall});
    }
    diagonal_scores<kTall>(width.d, q + at, step_key + at, decay + at, width.k, own, akk_rows + before, aqk_rows + before);
    for (int64_t i = 0; i < kBlock; ++i)
      for (int64_t j = before; j < before + kBlock; j += kLanes<Real>) store<Real>(akk_rows + i * kTall + j, -load(akk_rows + i * kTall + j));
    for (int64_t c = 0; c < width.d; ++c)
      for (int64_t j = 0; j < before; j += kLanes<Real>) store<Real>(keys + c * kTall + j, load(keys + c * kTall + j) * block_total[block * width.k + c]);
  }

  Real *raw_q_, *raw_k_, *raw_g_, *raw_v_;   // one row, where inputs must be converted
};

/// (I + Akk)⁻¹ applied to `columns` columns of y, in place.
template <class Real, int kTall>
void solve(const Tile<Real, kTall>& tile, int64_t columns, Real* y) {
  for (int64_t block = 0; block < tile.blocks(); ++block) {
    const Real* l = tile.minus_akk + block * kBlock * kTall;
    Real* own = y + block * kBlock * columns;
    if (block > 0) cpu::multiply_add<Real>(kBlock, columns, block * kBlock, {l, kTall}, {y, columns}, {own, columns});
    substitute<kTall, false>(l + block * kBlock, columns, own, columns);
  }
}
/// Its transpose.
template <class Real, int kTall>
void solve_transposed(const Tile<Real, kTall>& tile, int64_t columns, Real* y) {
  for (int64_t block = tile.blocks() - 1; block >= 0; --block) {
    const int64_t next = (block + 1) * kBlock;
    Real* own = y + block * kBlock * columns;
    if (next < tile.rows)
      cpu::multiply_add<Real>(kBlock, columns, tile.rows - next, {tile.minus_akk + next * kTall + block * kBlock, 1, kTall}, {y + next * columns, columns}, {own, columns});
    substitute<kTall, true>(tile.minus_akk + block * kBlock * (kTall + 1), columns, own, columns);
  }
}

/// R = (I + Akk)⁻¹ (β v − β k S), the steps of the recurrence, from the state in front of the chunk.
template <class Real, int kTall>
void find_steps(const Tile<Real, kTall>& tile, const Real* state, Real* steps) {
  const int64_t k = tile.width.k, v = tile.width.v;
  std::copy_n(tile.bv, tile.rows * v, steps);
  cpu::multiply_add<Real>(tile.rows, v, tile.width.d, {tile.minus_bk, k}, {state, v}, {steps, v});
  solve(tile, v, steps);
}

/// S ← Diag(2^{G_last}) S + kgᵀ R
template <class Real, int kTall>
void advance_state(const Tile<Real, kTall>& tile, const Real* steps, Real* state) {
  const int64_t v = tile.width.v;
  cpu::multiply_scale_add<Real>(tile.width.d, v, tile.rows, tile.total, {tile.keys, kTall}, {steps, v}, {state, v});
}

/// A state in scratch rows of padded width, zeros where there is none.
template <class Real>
void load_state(const Shape& shape, const Widths& width, const TensorView& view, int64_t b, int64_t h, int64_t n, Real* state) {
  std::fill_n(state, width.k * width.v, Real{0});
  if (!shape.carry) return;
  const auto from = view.elements<const Real, 5>();
  for (int64_t c = 0; c < shape.d; ++c)
    for (int64_t e = 0; e < shape.dv; ++e) state[c * width.v + e] = from(b, h, n, c, e);
}
template <class Real>
void store_state(const Shape& shape, const Widths& width, const Real* state, const TensorView& view, int64_t b, int64_t h, int64_t n) {
  if (!shape.carry) return;
  const auto to = view.elements<Real, 5>();
  for (int64_t c = 0; c < shape.d; ++c)
    for (int64_t e = 0; e < shape.dv; ++e) to(b, h, n, c, e) = state[c * width.v + e];
}

}  // namespace megatoken::kda
