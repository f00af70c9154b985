// Faults that only the chunk form of kda can have: how its triangular matrix is inverted, and where its decays are anchored. Each chunk
// starts from the right state and is computed wrongly.
#include <cmath>

#include "reference/components/kda/chunk.hpp"
#include "tests/planted/edits.hpp"
#include "tests/planted/kda_host.hpp"

namespace megatoken {
namespace {

using kda::Chunk, kda::Matrix;

using Spoil = std::function<void(Chunk&)>;  // changes Akk, Aqk or A; everything behind them follows

void spoiled_forward(const Call& call, const Spoil& spoil) {
  const kda::Shape shape(call.axes);
  synchronize(call.views[0].device);
  const plant::HostCopy host(call);
  const auto o = host.x.o.elements<double, 5>();
  fill(host.x.o, 0);
  parallel_for(shape.b * shape.h * shape.group, hardware_threads(), [&](int64_t item) {
    const int64_t b = item / (shape.h * shape.group), h = item / shape.group % shape.h, n = item % shape.group;
    kda::walk_chunks(shape, host.x, b, h, n, [&](int64_t begin, Chunk&& c) {
      spoil(c);
      const Matrix R = c.A * (c.bv - c.bk * c.in.S), O = c.in.scale * c.qg * c.in.S + c.Aqk * R;
      for (int64_t i = 0; i < O.rows(); ++i)
        for (int64_t e = 0; e < shape.dv; ++e) o(b, begin + i, h, n, e) = O(i, e);
    });
  });
  const size_t f = find_component("kda").index("o");
  plant::HostCopy::write(host.views[f], call.views[f]);
}

/// The truth with another o.
Variant with_spoiled_chunks(const Variant& truth, const Spoil& spoil) {
  return plant::with_forward(truth, [right = truth.forward, spoil](const Call& call) {
    right(call);
    spoiled_forward(call, spoil);
  });
}

Matrix in_half(const Matrix& x) {
  return x.unaryExpr([](double v) { return static_cast<double>(Half(v)); });
}

/// (I + L)⁻¹ = (I − L)(I + L²)(I + L⁴) …, with every product rounded to half precision.
Matrix inverse_by_doubling_in_half(const Matrix& L) {
  const Matrix one = Matrix::Identity(L.rows(), L.cols());
  Matrix inverse = one - in_half(L), power = in_half(L);
  for (int64_t reach = 2; reach < L.rows(); reach *= 2) {
    power = in_half(power * power);
    inverse = in_half(inverse * (one + power));
  }
  return inverse;
}

/// 1 − L + L² − … cut off behind the 16th power.
Matrix truncated_inverse(const Matrix& L) {
  Matrix inverse = Matrix::Identity(L.rows(), L.cols()), power = inverse;
  for (int i = 0; i < 16; ++i) inverse += power = -power * L;
  return inverse;
}

/// Aqk from q 2^(G_i − G_0) and k 2^(G_0 − G_j) in fp32, G_0 that of the chunk's first row.
void anchor_at_the_first_row(Chunk& c) {
  const Eigen::MatrixXf from_first = (c.G.rowwise() - c.G.row(0)).cast<float>();
  const Eigen::MatrixXf q = c.in.q.cast<float>().array() * (from_first.array() * std::log(2.0f)).exp(), k = c.in.k.cast<float>().array() * (-from_first.array() * std::log(2.0f)).exp();
  c.Aqk = c.in.scale * (q * k.transpose()).cast<double>();
  for (int64_t i = 0; i < c.Aqk.rows(); ++i)
    for (int64_t j = i + 1; j < c.Aqk.cols(); ++j) c.Aqk(i, j) = 0;
}

const Registered<Fault> kHalfInverse{Fault{
    .component = "kda", .name = "inverse_by_doubling_in_half", .about = "the inverse of a chunk by powers in half precision, which overflow for equal keys and slow decay",
    .guards = "kda.md §7 row 15: vllm-FlashKDA #10, FlashKDA #34",
    .plant = [](const Variant& truth) { return with_spoiled_chunks(truth, [](Chunk& c) { c.A = inverse_by_doubling_in_half(c.Akk); }); }}};

const Registered<Fault> kTruncatedInverse{Fault{
    .component = "kda", .name = "inverse_truncated", .about = "the series of the inverse stops at the 16th power",
    .guards = "kda.md §7 row 16: cudnn-frontend #1051, #1124, tt-metal #54813, #55420, #55626",
    .plant = [](const Variant& truth) { return with_spoiled_chunks(truth, [](Chunk& c) { c.A = truncated_inverse(c.Akk); }); }}};

const Registered<Fault> kOneAnchor{Fault{
    .component = "kda", .name = "one_anchor_a_chunk", .about = "decays of 64 rows relative to one row: their inverses overflow",
    .guards = "kda.md §7 rows 17, 20, 24: cudnn-frontend #1017, TIRx #214, flashinfer #5032",
    .plant = [](const Variant& truth) { return with_spoiled_chunks(truth, anchor_at_the_first_row); }}};

}  // namespace
}  // namespace megatoken
