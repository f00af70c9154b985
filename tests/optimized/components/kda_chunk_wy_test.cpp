// kda/chunk_wy against the recurrence: what is its own (segments, pieces, threads of the pipeline, decay gradients). What every delta rule and
// every variant must pass, tests/variants asks of it too. The numbers of rows in comments are those of the spec's bug catalogue.
#include <gtest/gtest.h>

#include "optimized/components/kda/chunk_wy.hpp"
#include "tests/gate.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::relative_rms;

const Variant& chunk_wy() { return find_variant("kda", "chunk_wy"); }
const Variant& cpu() { return find_variant("kda", "cpu"); }

class KdaChunkWyShapes : public testing::TestWithParam<std::string> {};

TEST_P(KdaChunkWyShapes, IsAsGoodAsTheRecurrenceAtEveryPrecision) {
  for (const char* distribution : {"normal", "aimed", "extreme", "tokens"})
    for (DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16})
      test::expect_within_gate(chunk_wy(), cpu(), filled("kda", GetParam(), dtype, distribution), GetParam() + " " + distribution);
}

// Row 5, flash-linear-attention #624: value heads ≠ key heads. Rows 19, 22, cudnn-frontend #1061, cuLA #41, #66: widths other than 128.
// Row 23, flashinfer #3536: empty documents. Row 25, vllm #41292: d ≠ dv. Row 32, FlashKDA #3: the gate that was asked for.
INSTANTIATE_TEST_SUITE_P(Shapes, KdaChunkWyShapes,
                         testing::Values("b=1 t=0 h=1 d=8 carry=1", "b=1 t=1 h=1 d=1 eps=0.5", "b=2 t=130 h=2 group=3 d=20 dv=12 docs=3 carry=1", "b=1 t=200 h=1 d=64 carry=1",
                                         "b=1 t=129 h=1 d=60 dv=100 gate=1 beta=2", "b=1 t=90 h=2 d=16 docs=120 carry=1", "b=1 t=100 h=1 d=33 dv=7 gate=0 beta=0 l2norm=0",
                                         "b=1 t=128 h=1 d=16 scale=-0.7 lower_bound=-2"),
                         [](const auto& info) { return "shape_" + std::to_string(info.index); });

// Row 3, attention-gym #461: with the diagonal kept, dg at strong decay was rounding noise of cancelled terms.
TEST(KdaChunkWy, DecayGradientsKeepTheirDigitsAtStrongDecay) {
  Problem p = filled("kda", "b=1 t=128 h=1 d=16 gate=0", DType::F32);
  for (int64_t i = 0; i < p["g"].size(); ++i) set_value(p["g"], i, i / 16 % 4 == 0 ? -40 : -0.01);
  const Problem oracle = p.converted(DType::F64);
  run_variant(cpu(), oracle, Phase::Both);
  run_variant(chunk_wy(), p, Phase::Both);
  double difference2 = 0, want2 = 0;  // over the rows of strong decay alone
  for (int64_t i = 0; i < p["dg"].size(); ++i) {
    if (i / 16 % 4 != 0) continue;
    difference2 += std::pow(value_at(p["dg"], i) - value_at(oracle["dg"], i), 2);
    want2 += std::pow(value_at(oracle["dg"], i), 2);
  }
  EXPECT_GT(want2, 0);
  EXPECT_LE(std::sqrt(difference2 / want2), 5e-6);
}

// Row 28, transformers #48455: NaN gradients where a masked exponential had overflowed.
TEST(KdaChunkWy, ResetsByGatesOfMinusOneThousandLeaveFiniteGradients) {
  Problem p = filled("kda", "b=1 t=150 h=1 d=16 gate=0 carry=1", DType::F32);
  for (int64_t i = 0; i < p["g"].size(); ++i)
    if (i / 16 % 50 == 20) set_value(p["g"], i, -1000);
  run_variant(chunk_wy(), p, Phase::Both);
  for (const char* name : {"o", "final_state", "dq", "dk", "dv", "dg", "dbeta", "dinitial_state"})
    for (int64_t i = 0; i < p[name].size(); ++i) ASSERT_TRUE(std::isfinite(value_at(p[name], i))) << name << " " << i;
  for (int64_t c = 0; c < 16; ++c) EXPECT_EQ(value_at(p["dg"], 20 * 16 + c), 0);
}

// Row 7, flash-linear-attention #945: run-to-run differences.
TEST(KdaChunkWy, ThreadsAndRepetitionsGiveTheSameBits) {
  for (const std::string axes : {"b=1 t=2300 h=1 d=16 carry=1", "b=2 t=300 h=2 group=2 d=16 docs=3"}) {
    const Problem one = filled("kda", axes, DType::F32);
    run_variant(chunk_wy(), one, Phase::Both, 1);
    for (int threads : {1, 2, 3, 5, 2, 3}) {
      const Problem many = one.converted(DType::F32);
      run_variant(chunk_wy(), many, Phase::Both, threads);
      EXPECT_EQ(test::worst_difference(many, one), 0) << axes << " " << threads;
    }
  }
}

// Row 10, flash-linear-attention #740; row 11: segments with an initial state; row 1, #1115: gates of every head. The affine maps of 1 to 5
// segments, cut inside documents and at their borders, lead to the results of one run.
TEST(KdaChunkWy, AnySplitIntoSegmentsGivesTheSameResult) {
  for (const std::string axes : {"b=1 t=700 h=1 d=16 dv=12 carry=1", "b=2 t=500 h=2 group=2 d=20 dv=8 docs=4 carry=1", "b=1 t=640 h=1 d=16 gate=1"})
    for (const char* distribution : {"normal", "aimed", "extreme"})
      for (const auto& [dtype, limit] : {std::pair{DType::F64, 1e-13}, std::pair{DType::F32, 4e-6}}) {
        const Problem whole = filled("kda", axes, dtype, distribution);
        run_variant(chunk_wy(), whole, Phase::Both);
        for (int64_t segments = 1; segments <= 5; ++segments) {
          const Problem cut = whole.converted(dtype);
          const kda::Shape shape(cut.axes());
          const auto x = bind_fields<kda::Tensors>(cut.views());
          Context context{.threads = 2};
          kda::chunk_wy_forward_in_segments(shape, x, context, segments);
          kda::chunk_wy_backward_in_segments(shape, x, context, segments);
          EXPECT_LE(test::worst_difference(cut, whole), segments == 1 ? limit / 4 : limit) << axes << " " << distribution << " " << to_string(dtype) << " segments=" << segments;
        }
      }
}

// Rows 26, 27: vllm #51039, #52909, #39087, sglang #31474. 270,000 tokens at once, and in pieces of odd lengths that hand the state on.
TEST(KdaChunkWy, PrefillInOddPiecesPast256KTokensEqualsOneShot) {
  const int64_t t = 270001;
  const Problem whole = filled("kda", format("b=1 t={} h=1 d=4 carry=1", t), DType::F32, "aimed");
  const Problem oracle = whole.converted(DType::F64);
  run_variant(chunk_wy(), whole, Phase::Forward, 2);
  run_variant(cpu(), oracle, Phase::Forward);
  EXPECT_LE(relative_rms(whole["o"], oracle["o"]), 2e-6);
  EXPECT_LE(relative_rms(whole["o"].slice(1, 262144, t), clone(oracle["o"].slice(1, 262144, t))), 2e-6);
  Tensor state = clone(whole["initial_state"]);
  const std::vector<int64_t> cuts{0, 1, 65537, 131071, 200003, t};
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const Component& component = whole.component();
    const Problem piece(component, component.complete(Axes::parse(format("b=1 t={} h=1 d=4 carry=1", cuts[i + 1] - cuts[i]))), DType::F32);
    for (const char* name : {"q", "k", "v", "g", "beta", "document"}) copy(whole[name].slice(1, cuts[i], cuts[i + 1]), piece[name]);
    for (const char* name : {"A_log", "dt_bias"}) copy(whole[name], piece[name]);
    copy(state, piece["initial_state"]);
    run_variant(chunk_wy(), piece, Phase::Forward, 2);
    EXPECT_LE(relative_rms(piece["o"], clone(oracle["o"].slice(1, cuts[i], cuts[i + 1]))), 2e-6) << cuts[i];
    state = clone(piece["final_state"]);
  }
  EXPECT_LE(relative_rms(state, oracle["final_state"]), 2e-6);
}

// Row 13, flash-linear-attention #871: dO of another memory order; here the channel is not the innermost.
TEST(KdaChunkWy, HonoursInputsWhoseChannelsAreNotContiguous) {
  const std::string axes = "b=1 t=70 h=2 d=16 dv=12";
  const Problem plain = filled("kda", axes, DType::F32), turned = plain.converted(DType::F32);
  run_variant(chunk_wy(), plain, Phase::Both);
  std::vector<TensorView> views(turned.views().begin(), turned.views().end());
  std::vector<Tensor> memory;
  for (const char* name : {"q", "v", "g", "do", "dk", "dg", "o"}) {
    TensorView& view = views[plain.component().index(name)];
    memory.push_back(clone(view));
    const Tensor values = clone(view);
    const int last = view.shape.rank() - 1;
    view.data = memory.back()->data;
    view.strides[last] = view.size() / view.shape[last];
    int64_t stride = 1;
    for (int axis = last - 1; axis >= 0; --axis) view.strides[axis] = stride, stride *= view.shape[axis];
    copy(values, view);
  }
  std::vector<std::byte> workspace(static_cast<size_t>(chunk_wy().workspace(turned.axes(), DType::F32, Phase::Both)));
  Context context{.workspace = workspace};
  const Call call{turned.axes(), DType::F32, views, context};
  chunk_wy().forward(call);
  chunk_wy().backward(call);
  for (const auto& field : plain.component().fields) {
    if (!test::is_result(field) || !plain[field.name]) continue;
    EXPECT_EQ(relative_rms(views[plain.component().index(field.name)], plain[field.name]), 0) << field.name;
  }
}

// Row 34, flash-linear-attention-npu #266, and row 31, torchtitan #4313: padding inside and behind packed documents.
TEST(KdaChunkWy, PaddingRowsAreZeroAndDocumentsDoNotLeak) {
  const Problem p = filled("kda", "b=2 t=200 h=1 group=2 d=16 dv=8 carry=1 docs=3", DType::F64);
  for (int64_t i = 0; i < 400; ++i)
    if (i % 200 >= 150 || (i % 200 > 70 && i % 200 < 80)) set_value(p["document"], i, -1);
  const Problem want = p.converted(DType::F64);
  run_variant(cpu(), want, Phase::Both);
  run_variant(chunk_wy(), p, Phase::Both);
  EXPECT_LE(test::worst_difference(p, want), 1e-13);
  for (const char* name : {"o", "dq", "dk", "dv", "dg", "dbeta"}) EXPECT_EQ(value_at(p[name], p[name].size() - 1), 0) << name;
}

}  // namespace
}  // namespace megatoken
