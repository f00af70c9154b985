#include "reference/components/kda/chunk.hpp"

#include <cmath>
#include <numbers>

#include "reference/components/kda/activation.hpp"

namespace megatoken::kda {
namespace {

Matrix strictly_lower(const Matrix& x) { return x.triangularView<Eigen::StrictlyLower>(); }
Matrix exp2_of(const Matrix& x) { return (x.array() * std::numbers::ln2).exp(); }

/// Calls pair(i, j, E) for every i ≥ j, E = 2^{G_i − G_j}. The exponent is summed from g afresh: behind a gate of −1000 the difference
/// of two large G has lost the digits of small gates. It is never positive, so nothing overflows.
template <class Pair>
void for_each_pair(const Matrix& g, Pair&& pair) {
  for (int64_t i = 0; i < g.rows(); ++i) {
    Eigen::RowVectorXd exponent = Eigen::RowVectorXd::Zero(g.cols());
    for (int64_t j = i; j >= 0; --j) {
      pair(i, j, Eigen::RowVectorXd(exponent.array().exp()));
      exponent += g.row(j);
    }
  }
}

/// 2^{G_last − G_i} for every row, summed afresh too.
Matrix decay_to_last(const Matrix& g) {
  Matrix exponent = Matrix::Zero(g.rows(), g.cols());
  for (int64_t i = g.rows() - 2; i >= 0; --i) exponent.row(i) = exponent.row(i + 1) + g.row(i + 1);
  return exponent.array().exp();
}

Matrix running_sum(const Matrix& x) {
  Matrix sum = x;
  for (int64_t i = 1; i < x.rows(); ++i) sum.row(i) += sum.row(i - 1);
  return sum;
}
Matrix running_sum_from_behind(const Matrix& x) {
  Matrix sum = x;
  for (int64_t i = x.rows() - 2; i >= 0; --i) sum.row(i) += sum.row(i + 1);
  return sum;
}

/// X with (I + L) X = Y, by forward substitution.
Matrix solve_unit_lower(const Matrix& L, const Matrix& Y) { return L.triangularView<Eigen::UnitLower>().solve(Y); }

}  // namespace

Chunk chunk_forward(ChunkInput in) {
  Chunk c{.in = std::move(in)};
  const auto& [q, k, v, g, beta, S, scale] = c.in;
  const int64_t rows = q.rows();
  c.G = running_sum(g * std::numbers::log2e);
  c.Akk = Matrix::Zero(rows, rows);
  c.Aqk = Matrix::Zero(rows, rows);
  for_each_pair(g, [&](int64_t i, int64_t j, const Eigen::RowVectorXd& E) {
    const Eigen::RowVectorXd decayed = k.row(j).cwiseProduct(E);
    if (j < i) c.Akk(i, j) = beta(i) * k.row(i).dot(decayed);
    c.Aqk(i, j) = scale * q.row(i).dot(decayed);
  });
  c.A = solve_unit_lower(c.Akk, Matrix::Identity(rows, rows));

  const Matrix decay = exp2_of(c.G);
  const Eigen::RowVectorXd total = decay.row(rows - 1);
  c.bk = beta.asDiagonal() * k.cwiseProduct(decay);
  c.bv = beta.asDiagonal() * v;
  c.qg = q.cwiseProduct(decay);
  c.kg = k.cwiseProduct(decay_to_last(g));
  c.w = c.A * c.bk;
  c.u = c.A * c.bv;
  c.R = c.u - c.w * S;
  c.O = scale * c.qg * S + c.Aqk * c.R;
  c.S_out = total.asDiagonal() * S + c.kg.transpose() * c.R;
  c.M = -c.kg.transpose() * c.w;
  c.M.diagonal() += total.transpose();
  c.B = c.kg.transpose() * c.u;
  return c;
}

ChunkGradients chunk_backward(const Chunk& c, const Matrix& dO, const Matrix& dS_out) {
  const auto& [q, k, v, g, beta, S, scale] = c.in;
  const int64_t last = q.rows() - 1;
  const Matrix decay = exp2_of(c.G);
  const Vector total = decay.row(last).transpose();
  ChunkGradients d;

  // Through O, R and S_out.
  d.dAqk = (scale * dO * c.R.transpose()).triangularView<Eigen::Lower>();
  d.dR = c.Aqk.transpose() * dO + c.kg * dS_out;
  d.dS = total.asDiagonal() * dS_out + scale * c.qg.transpose() * dO - c.w.transpose() * d.dR;
  d.dw = -d.dR * S.transpose();
  const Matrix dqg = scale * dO * S.transpose(), dkg = c.R * dS_out.transpose();

  // Through w = A bk, u = A bv and A = (I + Akk)⁻¹.
  d.dvb = c.A.transpose() * d.dR;
  d.dkb = c.A.transpose() * d.dw;
  d.dA = strictly_lower(d.dR * c.bv.transpose() + d.dw * c.bk.transpose());
  d.dAkk = -strictly_lower(c.A.transpose() * d.dA * c.A.transpose());

  // Through bk, bv, qg, kg.
  const Matrix k_decayed = k.cwiseProduct(decay), k_inter = dkg.cwiseProduct(decay_to_last(g));
  d.dv = beta.asDiagonal() * d.dvb;
  d.dbeta = d.dvb.cwiseProduct(v).rowwise().sum() + d.dkb.cwiseProduct(k_decayed).rowwise().sum();
  d.dq = dqg.cwiseProduct(decay);
  d.dk = k_inter + Matrix(beta.asDiagonal() * d.dkb).cwiseProduct(decay);

  // What reaches row i from the entry state crosses the decays of rows ≤ i; what row j leaves in S_out crosses those of rows > j.
  d.dg = running_sum_from_behind(q.cwiseProduct(d.dq) + Matrix(beta.asDiagonal() * d.dkb).cwiseProduct(k_decayed));
  const Matrix left_behind = running_sum(k.cwiseProduct(k_inter));
  if (last > 0) d.dg.bottomRows(last) += left_behind.topRows(last);
  d.dg.rowwise() += (total.array() * S.cwiseProduct(dS_out).rowwise().sum().array()).matrix().transpose();

  // Through Akk and Aqk, pair by pair.
  for_each_pair(g, [&](int64_t i, int64_t j, const Eigen::RowVectorXd& E) {
    const Eigen::RowVectorXd to_q = d.dAqk(i, j) * k.row(j).cwiseProduct(E), to_k = d.dAkk(i, j) * k.row(j).cwiseProduct(E);
    const Eigen::RowVectorXd to_past = (d.dAqk(i, j) * q.row(i) + d.dAkk(i, j) * beta(i) * k.row(i)).cwiseProduct(E);
    d.dq.row(i) += to_q;
    d.dk.row(i) += beta(i) * to_k;
    d.dk.row(j) += to_past;
    if (i == j) return;
    d.dbeta(i) += to_k.dot(k.row(i));
    for (int64_t s = j + 1; s <= i; ++s) d.dg.row(s) += k.row(j).cwiseProduct(to_past);
  });
  return d;
}

Matrix walk_chunks(const Shape& shape, const Tensors& x, int64_t b, int64_t h, int64_t n, const VisitChunk& visit, int64_t rows) {
  Matrix S = Matrix::Zero(shape.d, shape.dv);
  if (shape.carry)
    for (int64_t c = 0; c < shape.d; ++c)
      for (int64_t e = 0; e < shape.dv; ++e) S(c, e) = value_at(x.initial_state, (((b * shape.h + h) * shape.group + n) * shape.d + c) * shape.dv + e);
  dispatch_float(x.q.dtype, [&]<class T>() {
    const Activation<T, double> in(shape, x);
    for (const Run& run : document_runs(in.document, b, shape.t)) {
      if (run.begin > 0) S.setZero();
      for (int64_t begin = run.begin; begin < run.end; begin += rows) {
        const int64_t count = std::min(rows, run.end - begin);
        ChunkInput chunk{Matrix(count, shape.d), Matrix(count, shape.d), Matrix(count, shape.dv), Matrix(count, shape.d), Vector(count), S, shape.scale};
        for (int64_t r = 0; r < count; ++r) {
          const int64_t i = begin + r;
          const double q_factor = in.inverse_norm(in.q, b, i, h), k_factor = in.inverse_norm(in.k, b, i, h);
          for (int64_t c = 0; c < shape.d; ++c) {
            chunk.q(r, c) = static_cast<double>(in.q(b, i, h, c)) * q_factor;
            chunk.k(r, c) = static_cast<double>(in.k(b, i, h, c)) * k_factor;
            chunk.g(r, c) = in.log_decay(b, i, h, n, c);
          }
          for (int64_t e = 0; e < shape.dv; ++e) chunk.v(r, e) = static_cast<double>(in.v(b, i, h, n, e));
          chunk.beta(r) = in.beta(b, i, h, n);
        }
        Chunk done = chunk_forward(std::move(chunk));
        S = done.S_out;
        visit(begin, std::move(done));
      }
    }
  });
  return S;
}

}  // namespace megatoken::kda
