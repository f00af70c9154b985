// kda in chunks: every intermediate of chunk.hpp against the recurrence or an identity of its own, and whole sequences against
// the token-by-token oracle.
#include <gtest/gtest.h>

#include "reference/components/kda/chunk.hpp"
#include "reference/core/random.hpp"
#include "tests/compare.hpp"

namespace megatoken::kda {
namespace {

using test::filled;

double difference(const Matrix& got, const Matrix& want) { return (got - want).norm() / std::max(want.norm(), 1e-300); }

Matrix random(int64_t rows, int64_t columns, const std::string& name) {
  const RandomStream stream(3, name);
  Matrix x(rows, columns);
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = stream.normal(i);
  return x;
}

constexpr int64_t kRows = 21, kKeys = 6, kValues = 4;

/// Gates of 0, −0.05 … −2 and one of −1000; nearly equal keys; β up to 1.
ChunkInput input() {
  ChunkInput in{random(kRows, kKeys, "q"), random(kRows, kKeys, "k"), random(kRows, kValues, "v"), -random(kRows, kKeys, "g").cwiseAbs() * 0.5,
                (random(kRows, 1, "beta").array().abs() * 0.4).min(1.0), random(kKeys, kValues, "S"), 0.4};
  in.k.middleRows(5, 6).rowwise() = Eigen::RowVectorXd(in.k.row(5));
  in.k.rowwise().normalize();
  in.g.row(8).setZero();
  in.g(12, 2) = -1000;
  return in;
}

/// The recurrence itself: o_i, β_i (v_i − S'ᵀk_i), and the state behind the last row.
struct Recurrence {
  Matrix O, R, S;
  explicit Recurrence(const ChunkInput& in) : O(kRows, kValues), R(kRows, kValues), S(in.S) {
    for (int64_t i = 0; i < kRows; ++i) {
      S = Matrix(in.g.row(i).array().exp().matrix().asDiagonal() * S);
      R.row(i) = in.beta(i) * (in.v.row(i) - in.k.row(i) * S);
      S += in.k.row(i).transpose() * R.row(i);
      O.row(i) = in.scale * in.q.row(i) * S;
    }
  }
};

/// e^{g} multiplied up over rows (from, to].
Eigen::RowVectorXd decay(const Matrix& g, int64_t from, int64_t to) {
  Eigen::RowVectorXd product = Eigen::RowVectorXd::Ones(g.cols());
  for (int64_t s = from + 1; s <= to; ++s) product = product.cwiseProduct(Eigen::RowVectorXd(g.row(s).array().exp()));
  return product;
}

double loss(const Chunk& c, const Matrix& dO, const Matrix& dS) { return c.O.cwiseProduct(dO).sum() + c.S_out.cwiseProduct(dS).sum(); }

TEST(KdaChunk, OutputStepsAndStateAreThoseOfTheRecurrence) {
  const Chunk c = chunk_forward(input());
  const Recurrence want(input());
  EXPECT_LE(difference(c.O, want.O), 1e-13);
  EXPECT_LE(difference(c.R, want.R), 1e-13);
  EXPECT_LE(difference(c.S_out, want.S), 1e-13);
}

TEST(KdaChunk, GIsTheRunningSumInBaseTwo) {
  const Chunk c = chunk_forward(input());
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t d = 0; d < kKeys; ++d) EXPECT_NEAR(std::exp2(c.G(i, d)), decay(c.in.g, -1, i)(d), 1e-12);
}

TEST(KdaChunk, ScoresAreDecayedProductsBelowTheDiagonal) {
  const Chunk c = chunk_forward(input());
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kRows; ++j) {
      const Eigen::RowVectorXd past = j <= i ? Eigen::RowVectorXd(c.in.k.row(j).cwiseProduct(decay(c.in.g, j, i))) : Eigen::RowVectorXd::Zero(kKeys);
      EXPECT_NEAR(c.Akk(i, j), j < i ? c.in.beta(i) * c.in.k.row(i).dot(past) : 0, 1e-14);
      EXPECT_NEAR(c.Aqk(i, j), c.in.scale * c.in.q.row(i).dot(past), 1e-14);
    }
}

TEST(KdaChunk, AInvertsIPlusAkk) {
  const Chunk c = chunk_forward(input());
  const Matrix identity = Matrix::Identity(kRows, kRows);
  EXPECT_LE(difference(c.A * (identity + c.Akk), identity), 1e-13);
}

TEST(KdaChunk, DecayedOperandsReachFromTheEntryAndToTheLastRow) {
  const Chunk c = chunk_forward(input());
  for (int64_t i = 0; i < kRows; ++i) {
    const Eigen::RowVectorXd entry = decay(c.in.g, -1, i), last = decay(c.in.g, i, kRows - 1);
    EXPECT_LE((c.qg.row(i) - c.in.q.row(i).cwiseProduct(entry)).norm(), 1e-14);
    EXPECT_LE((c.bk.row(i) - c.in.beta(i) * c.in.k.row(i).cwiseProduct(entry)).norm(), 1e-14);
    EXPECT_LE((c.kg.row(i) - c.in.k.row(i).cwiseProduct(last)).norm(), 1e-14);
    EXPECT_LE((c.bv.row(i) - c.in.beta(i) * c.in.v.row(i)).norm(), 1e-15);
  }
}

// (I + Akk) w = bk and (I + Akk) u = bv say what w and u are without A.
TEST(KdaChunk, WAndUSolveTheTriangularSystem) {
  const Chunk c = chunk_forward(input());
  const Matrix system = Matrix::Identity(kRows, kRows) + c.Akk;
  EXPECT_LE(difference(system * c.w, c.bk), 1e-13);
  EXPECT_LE(difference(system * c.u, c.bv), 1e-13);
}

TEST(KdaChunk, MAndBAreTheAffineMapOfTheState) {
  ChunkInput other = input();
  other.S = random(kKeys, kValues, "another state");
  const Chunk c = chunk_forward(input());
  EXPECT_LE(difference(c.M * other.S + c.B, Recurrence(other).S), 1e-13);
}

// Later ∘ earlier = (M₂ M₁, M₂ B₁ + B₂); and where a chunk begins changes u but not R (a public report took u for an invariant).
TEST(KdaChunk, MapsComposeAndOnlyStepsAreFreeOfTheChunkGrid) {
  const ChunkInput in = input();
  const Chunk whole = chunk_forward(in);
  ChunkInput first{in.q.topRows(9), in.k.topRows(9), in.v.topRows(9), in.g.topRows(9), in.beta.head(9), in.S, in.scale};
  const Chunk a = chunk_forward(first);
  ChunkInput second{in.q.bottomRows(12), in.k.bottomRows(12), in.v.bottomRows(12), in.g.bottomRows(12), in.beta.tail(12), a.S_out, in.scale};
  const Chunk b = chunk_forward(second);
  EXPECT_LE(difference(b.M * a.M, whole.M), 1e-13);
  EXPECT_LE(difference(b.M * a.B + b.B, whole.B), 1e-13);
  EXPECT_LE(difference(b.R, whole.R.bottomRows(12)), 1e-13);
  EXPECT_GE(difference(b.u, whole.u.bottomRows(12)), 1e-2);
}

TEST(KdaChunk, StateGradientIsTheAdjointMapPlusALocalTerm) {
  const Chunk c = chunk_forward(input());
  const Matrix dO = random(kRows, kValues, "dO"), dS = random(kKeys, kValues, "dS");
  const Matrix local = chunk_backward(c, dO, Matrix::Zero(kKeys, kValues)).dS;
  EXPECT_LE(difference(chunk_backward(c, dO, dS).dS, c.M.transpose() * dS + local), 1e-13);
}

// Loss as a function of one intermediate, everything before it held fixed.
TEST(KdaChunk, GradientsOfIntermediatesAreSlopesOfTheLoss) {
  const Chunk c = chunk_forward(input());
  const Matrix dO = random(kRows, kValues, "dO"), dS = random(kKeys, kValues, "dS");
  const ChunkGradients d = chunk_backward(c, dO, dS);
  const auto with_R = [&](const Matrix& R) { return (c.Aqk * R).cwiseProduct(dO).sum() + (c.kg.transpose() * R).cwiseProduct(dS).sum(); };

  const Matrix shift = random(kRows, kValues, "shift"), key_shift = random(kRows, kKeys, "key shift");
  EXPECT_NEAR(with_R(c.R + shift) - with_R(c.R), d.dR.cwiseProduct(shift).sum(), 1e-12);
  EXPECT_NEAR(with_R(c.R - key_shift * c.in.S) - with_R(c.R), d.dw.cwiseProduct(key_shift).sum(), 1e-12);
  EXPECT_NEAR(with_R(c.R + c.A * shift) - with_R(c.R), d.dvb.cwiseProduct(shift).sum(), 1e-12);
  EXPECT_NEAR(with_R(c.R - c.A * key_shift * c.in.S) - with_R(c.R), d.dkb.cwiseProduct(key_shift).sum(), 1e-12);

  const double step = 1e-4;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < i; j += 3) {
      const auto with_A = [&](const Matrix& A) { return with_R(A * c.bv - A * c.bk * c.in.S); };
      const auto with_Akk = [&](double h) {
        Matrix Akk = c.Akk;
        Akk(i, j) += h;
        return with_A((Matrix::Identity(kRows, kRows) + Akk).inverse());
      };
      Matrix unit = Matrix::Zero(kRows, kRows);
      unit(i, j) = 1;
      EXPECT_NEAR(with_A(c.A + unit) - with_A(c.A), d.dA(i, j), 1e-11);
      EXPECT_NEAR((with_Akk(step) - with_Akk(-step)) / (2 * step), d.dAkk(i, j), 1e-6);
      EXPECT_NEAR(c.in.scale * (unit * c.R).cwiseProduct(dO).sum(), d.dAqk(i, j), 1e-13);
    }
}

TEST(KdaChunk, GradientsOfInputsAreSlopesOfTheLoss) {
  const ChunkInput in = input();
  const Chunk c = chunk_forward(in);
  const Matrix dO = random(kRows, kValues, "dO"), dS = random(kKeys, kValues, "dS");
  const ChunkGradients d = chunk_backward(c, dO, dS);
  const double step = 1e-5;
  const auto check = [&](const Matrix& gradient, auto change, const char* name) {
    for (int64_t i = 0; i < gradient.size(); i += 5) {
      ChunkInput plus = in, minus = in;
      change(plus, i, step);
      change(minus, i, -step);
      EXPECT_NEAR((loss(chunk_forward(plus), dO, dS) - loss(chunk_forward(minus), dO, dS)) / (2 * step), gradient.data()[i], 1e-7) << name << " " << i;
    }
  };
  check(d.dq, [](ChunkInput& x, int64_t i, double h) { x.q.data()[i] += h; }, "dq");
  check(d.dk, [](ChunkInput& x, int64_t i, double h) { x.k.data()[i] += h; }, "dk");
  check(d.dv, [](ChunkInput& x, int64_t i, double h) { x.v.data()[i] += h; }, "dv");
  check(d.dg, [](ChunkInput& x, int64_t i, double h) { x.g.data()[i] += h; }, "dg");
  check(d.dbeta, [](ChunkInput& x, int64_t i, double h) { x.beta.data()[i] += h; }, "dbeta");
  check(d.dS, [](ChunkInput& x, int64_t i, double h) { x.S.data()[i] += h; }, "dS");
}

// transformers #48455: exponentials of positive differences, masked afterwards, gave NaN gradients.
TEST(KdaChunk, GatesOfMinusOneThousandStayFiniteAndLeaveNoDecayGradient) {
  ChunkInput in = input();
  in.g.row(4).setConstant(-1000);
  in.g.row(17).setConstant(-1000);
  const Chunk c = chunk_forward(in);
  const ChunkGradients d = chunk_backward(c, random(kRows, kValues, "dO"), random(kKeys, kValues, "dS"));
  EXPECT_LE(difference(c.O, Recurrence(in).O), 1e-13);
  for (const Matrix* x : {&d.dq, &d.dk, &d.dv, &d.dg, &d.dS}) EXPECT_TRUE(x->allFinite());
  EXPECT_EQ(d.dg.row(4).norm(), 0);
  EXPECT_EQ(d.dg.row(17).norm(), 0);
}

class KdaChunkSequence : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(KdaChunkSequence, EqualsTheRecurrence) {
  const auto [axes, distribution] = GetParam();
  Problem recurrence = filled("kda", axes, DType::F64, distribution), chunked = filled("kda", axes, DType::F64, distribution);
  run_variant(find_variant("kda", "cpu"), recurrence, Phase::Both);
  run_variant(find_variant("kda", "cpu_chunk"), chunked, Phase::Both);
  EXPECT_LE(test::worst_difference(chunked, recurrence), 1e-12);
}

// Lengths around chunk borders, tails of 1 and 63 rows, identical keys with β = 1 and slow decay (aimed, extreme).
INSTANTIATE_TEST_SUITE_P(Sequences, KdaChunkSequence,
                         testing::Combine(testing::Values("b=1 t=1 h=1 d=4", "b=1 t=63 h=1 d=4", "b=1 t=64 h=1 d=4 carry=1", "b=1 t=65 h=1 d=4 gate=1 beta=2",
                                                          "b=1 t=127 h=1 d=4 dv=6 carry=1", "b=2 t=200 h=2 group=2 d=5 dv=3 docs=4 carry=1",
                                                          "b=1 t=300 h=1 d=4 gate=0 beta=0 l2norm=0 carry=1"),
                                          testing::Values("normal", "aimed", "extreme", "tokens")));

TEST(KdaChunk, TheChunkLengthDoesNotMatter) {
  const Problem p = filled("kda", "b=1 t=100 h=1 d=4 dv=3 docs=2 carry=1", DType::F64, "aimed");
  const Shape shape(p.axes());
  const Tensors x = bind_fields<Tensors>(p.views());
  const auto outputs = [&](int64_t rows) {
    Matrix all = Matrix::Zero(shape.t, shape.dv);
    const Matrix S = walk_chunks(shape, x, 0, 0, 0, [&](int64_t begin, Chunk&& c) { all.middleRows(begin, c.O.rows()) = c.O; }, rows);
    Matrix both(shape.t + shape.d, shape.dv);
    both << all, S;
    return both;
  };
  const Matrix want = outputs(kChunkRows);
  for (int64_t rows : {1, 7, 16, 32, 100}) EXPECT_LE(difference(outputs(rows), want), 1e-12) << rows;
}

}  // namespace
}  // namespace megatoken::kda
