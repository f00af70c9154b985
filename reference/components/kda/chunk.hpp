// kda in chunks: the WY form, step by step, with every intermediate kept under the name that the formulas use, so that a
// kernel's own can be held against it one by one. Always fp64, whatever the tensors are.
//
// A chunk is C consecutive tokens of one document and value head, with entry state S [K, V] (K = d, V = dv):
//   G_i = log2(e) Σ_{s≤i} g_s                                  inclusive, inside the chunk
//   Akk_ij = β_i Σ_d k_i k_j 2^{G_i−G_j}   (i > j)             Aqk_ij = scale Σ_d q_i k_j 2^{G_i−G_j}   (i ≥ j)
//   A = (I + Akk)⁻¹       bk = β k 2^G    bv = β v    qg = q 2^G    kg = k 2^{G_last−G}
//   w = A bk    u = A bv    R = u − w S    O = scale qg S + Aqk R    S_out = Diag(2^{G_last}) S + kgᵀ R
//   M = Diag(2^{G_last}) − kgᵀ w,  B = kgᵀ u:  S_out = M S + B for any S
// R_i is the step v_i − S'ᵀk_i of the recurrence times β_i; w, u and R depend on where the chunk begins, O and S_out do not.
// Source: the Kimi Linear report (arXiv 2510.26692); the backward was derived here and is checked by finite differences.
#pragma once
#include <Eigen/Dense>
#include <functional>

#include "reference/components/kda/kda.hpp"

namespace megatoken::kda {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

inline constexpr int64_t kChunkRows = 64;

struct ChunkInput {
  Matrix q, k;      // C K, after the norm; q not yet scaled
  Matrix v;         // C V
  Matrix g;         // C K, log-decay, natural logarithm
  Vector beta;      // C
  Matrix S;         // K V
  double scale;
};

struct Chunk {
  ChunkInput in;
  Matrix G;               // C K
  Matrix Akk, Aqk, A;     // C C
  Matrix bk, qg, kg, w;   // C K
  Matrix bv, u, R, O;     // C V
  Matrix S_out;           // K V
  Matrix M, B;            // K K · K V
};
Chunk chunk_forward(ChunkInput in);

/// Backward of one chunk. dS_out: gradient of the state behind it; dS: of the state in front, which is the chunk before's dS_out.
///   dAqk = scale tril(dO Rᵀ)        dR = Aqkᵀ dO + kg dS_out
///   dS = Diag(2^{G_last}) dS_out + scale qgᵀ dO − wᵀ dR        dw = −dR Sᵀ    dvb = Aᵀ dR    dkb = Aᵀ dw
///   dA = strictly lower of (dvb-side dR bvᵀ + dw bkᵀ)          dAkk = −strictly lower of Aᵀ dA Aᵀ
///   dg_i = every term that crosses the decay of row i, and no other: the usual reverse cumulative sum of dG is the same number, but
///   terms that cross nothing cancel in it only up to rounding, which is all that is left where a decay is near 0
/// The diagonal i = j of Aqk adds to dq and dk, and crosses nothing.
struct ChunkGradients {
  Matrix dAqk, dA, dAkk;     // C C
  Matrix dR, dvb;            // C V, dvb of bv
  Matrix dw, dkb;            // C K, dkb of bk
  Matrix dS;                 // K V
  Matrix dq, dk, dv, dg;     // C K · C K · C V · C K
  Vector dbeta;              // C
};
ChunkGradients chunk_backward(const Chunk& chunk, const Matrix& dO, const Matrix& dS_out);

/// Walks one value head of one batch row chunk by chunk; no chunk crosses a document. visit(first row, chunk); returns the state
/// behind the last token. Chunks of `rows` tokens, the last of a document shorter.
using VisitChunk = std::function<void(int64_t begin, Chunk&& chunk)>;
Matrix walk_chunks(const Shape& shape, const Tensors& x, int64_t b, int64_t h, int64_t n, const VisitChunk& visit, int64_t rows = kChunkRows);

}  // namespace megatoken::kda
