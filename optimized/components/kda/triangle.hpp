// kda: the 16 × 16 blocks on the diagonal of a chunk, where rows and columns are tokens of the same block, and triangular systems.
// Pairs (i, j) with j < i need the decays between them. A key is decayed step by step from row to row, k_j ∏_{s=j+1..i} e^{g_s}: products
// of numbers ≤ 1, so there is no anchor, no exponent and nothing to overflow, whatever the gates are.
#pragma once
#include "optimized/cpu/vector.hpp"

namespace megatoken::kda {

using cpu::kLanes, cpu::load, cpu::store, cpu::Vector;

inline constexpr int kBlock = 16;  // rows of a block
inline constexpr int kRows = 64;   // rows of a chunk

/// Scores of a block: akk_ij = Σ_c step_key_i k_j decay (j < i), aqk_ij = Σ_c q_i k_j decay (j ≤ i), zeros above. Rows of q, step_key (β k)
/// and decay are `row` numbers apart, those of akk and aqk kTall. keys holds k turned, channel c at keys + c · kTall; afterwards every
/// key there is decayed to the end of the block.
template <int kTall, class Real>
void diagonal_scores(int64_t channels, const Real* q, const Real* step_key, const Real* decay, int64_t row, Real* keys, Real* akk, Real* aqk) {
  constexpr int kVectors = kBlock / kLanes<Real>, kHalf = kBlock / 2;
  using Lanes = Vector<cpu::LaneInt<Real>>;
  Lanes lane[kVectors];
  for (int v = 0; v < kVectors; ++v)
    for (int i = 0; i < kLanes<Real>; ++i) lane[v][i] = v * kLanes<Real> + i;
  for (int first = 0; first < kBlock; first += kHalf) {
    Vector<Real> key_sum[kHalf][kVectors] = {}, query_sum[kHalf][kVectors] = {};
    for (int64_t c = 0; c < channels; ++c) {
      Vector<Real> past[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) past[v] = load(keys + c * kTall + v * kLanes<Real>);
#pragma GCC unroll 8
      for (int r = 0; r < kHalf; ++r) {
        const int64_t at = (first + r) * row + c;
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          past[v] = lane[v] < first + r ? past[v] * decay[at] : past[v];
          key_sum[r][v] += step_key[at] * past[v];
          query_sum[r][v] += q[at] * past[v];
        }
      }
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) store(keys + c * kTall + v * kLanes<Real>, past[v]);
    }
    for (int r = 0; r < kHalf; ++r)
      for (int v = 0; v < kVectors; ++v) {
        store<Real>(akk + (first + r) * kTall + v * kLanes<Real>, lane[v] < first + r ? key_sum[r][v] : Vector<Real>{});
        store<Real>(aqk + (first + r) * kTall + v * kLanes<Real>, lane[v] <= first + r ? query_sum[r][v] : Vector<Real>{});
      }
  }
}

/// Y ← (I + L)⁻¹ Y (or its transpose) for one block, by substitution; minus_l = −L, strictly lower, rows kTall apart.
template <int kTall, bool kTransposed, class Real>
void substitute(const Real* minus_l, int64_t columns, Real* y, int64_t row) {
  for (int64_t c = 0; c < columns; c += kLanes<Real>) {
    Vector<Real> x[kBlock];
#pragma GCC unroll 16
    for (int i = 0; i < kBlock; ++i) x[i] = load(y + i * row + c);
    if constexpr (kTransposed) {
#pragma GCC unroll 16
      for (int i = kBlock - 1; i > 0; --i)
#pragma GCC unroll 16
        for (int j = 0; j < i; ++j) x[j] += minus_l[i * kTall + j] * x[i];
    } else {
#pragma GCC unroll 16
      for (int i = 1; i < kBlock; ++i)
#pragma GCC unroll 16
        for (int j = 0; j < i; ++j) x[i] += minus_l[i * kTall + j] * x[j];
    }
#pragma GCC unroll 16
    for (int i = 0; i < kBlock; ++i) store(y + i * row + c, x[i]);
  }
}

/// Rows of one block that gradients of pairs inside it are computed from and added to; all `row` numbers apart.
template <class Real>
struct BlockRows {
  const Real *q, *k, *step_key, *decay;
  Real *dq, *to_step, *to_key, *dg;  // to_step_i = Σ_{j<i} dakk_ij k_j decay;  to_key_j = Σ_{i>j} (daqk_ij q_i + dakk_ij step_key_i) decay
};

/// dg_t gets every pair with j < t ≤ i, and only those.
template <class Real>
void diagonal_gradients(int64_t channels, const BlockRows<Real>& at, int64_t row, const Real* dakk, const Real* daqk) {
  for (int64_t c = 0; c < channels; c += kLanes<Real>) {
    Vector<Real> past[kBlock], dg[kBlock] = {};
    for (int i = 0; i < kBlock; ++i) {
      const Vector<Real> decay = load(at.decay + i * row + c), q = load(at.q + i * row + c), key = load(at.step_key + i * row + c);
      Vector<Real> dq{}, to_step{}, crossing{};
      for (int j = 0; j < i; ++j) {
        const Real from_q = daqk[i * kRows + j], from_k = dakk[i * kRows + j];
        past[j] *= decay;
        dq += from_q * past[j];
        to_step += from_k * past[j];
        crossing += (from_q * q + from_k * key) * past[j];
        dg[j + 1] += crossing;
      }
      past[i] = load(at.k + i * row + c);
      store<Real>(at.dq + i * row + c, load(at.dq + i * row + c) + dq);
      store<Real>(at.to_step + i * row + c, load(at.to_step + i * row + c) + to_step);
    }
    Vector<Real> to_key[kBlock] = {};
    for (int i = kBlock - 1; i > 0; --i) {
      const Vector<Real> decay = load(at.decay + i * row + c), q = load(at.q + i * row + c), key = load(at.step_key + i * row + c);
      for (int j = 0; j < i; ++j) to_key[j] = (to_key[j] + daqk[i * kRows + j] * q + dakk[i * kRows + j] * key) * decay;
    }
    for (int i = 0; i < kBlock; ++i) {
      store<Real>(at.to_key + i * row + c, load(at.to_key + i * row + c) + to_key[i]);
      store<Real>(at.dg + i * row + c, load(at.dg + i * row + c) + dg[i]);
    }
  }
}

}  // namespace megatoken::kda
