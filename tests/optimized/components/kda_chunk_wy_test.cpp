// kda/chunk_wy against the recurrence: everything that public reports say goes wrong in chunked kernels. The numbers of rows in
// comments are those of the spec's bug catalogue.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "optimized/components/kda/chunk_wy.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::relative_rms;

const Variant& chunk_wy() { return find_variant("kda", "chunk_wy"); }
const Variant& cpu() { return find_variant("kda", "cpu"); }

constexpr double kFloor32 = 5e-7;  // of reference/tolerances.toml

/// Every output within 2 ×, every gradient within 3 × the error of the naive variant at the same dtype.
void expect_as_good_as_naive(const Problem& problem, const std::string& what) {
  const DType dtype = problem.dtype();
  const Problem oracle = problem.converted(DType::F64), naive = problem.converted(dtype), got = problem.converted(dtype);
  run_variant(cpu(), oracle, Phase::Both, hardware_threads());
  run_variant(cpu(), naive, Phase::Both, hardware_threads());
  run_variant(chunk_wy(), got, Phase::Both);
  const double floor = dtype == DType::F64 ? 1e-13 : dtype == DType::F32 ? kFloor32 : dtype == DType::F16 ? 1e-4 : 1e-3;
  for (const auto& field : problem.component().fields) {
    if (!test::is_result(field) || !got[field.name]) continue;
    const double error = relative_rms(got[field.name], oracle[field.name]), yardstick = relative_rms(naive[field.name], oracle[field.name]);
    EXPECT_LE(error, (field.role == Role::Output ? 2 : 3) * std::max(yardstick, floor)) << what << ": " << field.name << ", naive " << yardstick;
  }
}

class KdaChunkWyShapes : public testing::TestWithParam<std::string> {};

TEST_P(KdaChunkWyShapes, IsAsGoodAsTheRecurrenceAtEveryPrecision) {
  for (const char* distribution : {"normal", "aimed", "extreme", "tokens"})
    for (DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16})
      expect_as_good_as_naive(filled("kda", GetParam(), dtype, distribution), GetParam() + " " + distribution + " " + to_string(dtype));
}

// Row 5, flash-linear-attention #624: value heads ≠ key heads. Rows 19, 22, cudnn-frontend #1061, cuLA #41, #66: widths other than 128.
// Row 23, flashinfer #3536: empty documents. Row 25, vllm #41292: d ≠ dv. Row 32, FlashKDA #3: the gate that was asked for.
INSTANTIATE_TEST_SUITE_P(Shapes, KdaChunkWyShapes,
                         testing::Values("b=1 t=0 h=1 d=8 carry=1", "b=1 t=1 h=1 d=1 eps=0.5", "b=2 t=130 h=2 group=3 d=20 dv=12 docs=3 carry=1", "b=1 t=200 h=1 d=64 carry=1",
                                         "b=1 t=129 h=1 d=60 dv=100 gate=1 beta=2", "b=1 t=90 h=2 d=16 docs=120 carry=1", "b=1 t=100 h=1 d=33 dv=7 gate=0 beta=0 l2norm=0",
                                         "b=1 t=128 h=1 d=16 scale=-0.7 lower_bound=-2"),
                         [](const auto& info) { return "shape_" + std::to_string(info.index); });

// Row 21, cuLA #38: a state of 1e27 after a tail chunk whose unused rows were not neutral.
TEST(KdaChunkWy, EveryTailLengthFrom1To63LeavesTheRightState) {
  for (int64_t tail = 1; tail < 64; ++tail) {
    const std::string axes = format("b=1 t={} h=1 d=8 dv=4 carry=1", 64 + tail);
    const Problem want = filled("kda", axes, DType::F64, "aimed"), got = filled("kda", axes, DType::F64, "aimed");
    run_variant(cpu(), want, Phase::Both);
    run_variant(chunk_wy(), got, Phase::Both);
    EXPECT_LE(test::worst_difference(got, want), 1e-13) << tail;
  }
}

// Rows 15, 16: vllm-FlashKDA #10, FlashKDA #34, cudnn-frontend #1051, #1124, tt-metal #54813, #55420, #55626. Nearly equal keys, almost no decay
// and β ≈ 1 make powers of Akk grow before they cancel; substitution does not form them.
TEST(KdaChunkWy, IdenticalKeysAndSlowDecayStayExact) {
  for (const double gate : {0.0, -1e-4})
    for (const double noise : {0.0, 1e-3}) {
      Problem p = filled("kda", "b=1 t=512 h=1 d=32 gate=0 beta=0", DType::F32);
      fill(p["g"], gate);
      fill(p["beta"], 0.999);
      const Tensor random = clone(p["k"]);
      for (int64_t i = 0; i < random->size(); ++i) set_value(p["k"], i, value_at(random, i % 32) + noise * value_at(random, i));
      expect_as_good_as_naive(p, format("gate {} noise {}", gate, noise));
    }
}

// Rows 2, 17, 20, 24: cudnn-frontend #1017, TIRx #214, attention-gym #337, flashinfer #5032. Gates at the bound for a whole chunk are 320 nats, beyond
// any one anchor; unbounded gates go further.
TEST(KdaChunkWy, StrongGatesNeitherOverflowNorLoseDigits) {
  for (const double gate : {-2.5, -5.0, -5.9, -11.1, -30.0, -87.0, -1000.0}) {
    Problem p = filled("kda", "b=1 t=200 h=1 d=16 gate=0 carry=1", DType::F32);
    for (int64_t i = 0; i < p["g"].size(); ++i) set_value(p["g"], i, gate * (1 - 1e-3 * static_cast<double>(i % 7)));
    expect_as_good_as_naive(p, format("all gates {}", gate));
    for (int64_t i = 0; i < p["g"].size(); ++i) set_value(p["g"], i, i % 16 % 3 == 0 || i / 16 % 11 == 0 ? gate : -1e-3);
    expect_as_good_as_naive(p, format("gates {} among weak ones", gate));
  }
}

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

// Row 2, flash-linear-attention #1240: with anchors behind a row its rounding depended on later gates.
TEST(KdaChunkWy, PrefixIsTheSameToTheBitWhateverFollows) {
  const Problem p = filled("kda", "b=1 t=150 h=2 d=24", DType::F32);
  run_variant(chunk_wy(), p, Phase::Forward);
  const Tensor before = clone(p["o"]);
  for (int64_t cut : {1, 9, 17, 63, 64, 100}) {
    const Problem changed = p.converted(DType::F32);
    for (const char* name : {"q", "k", "v", "g", "beta"}) fill_normal(changed[name].slice(1, cut, 150), 5, name, 3);
    run_variant(chunk_wy(), changed, Phase::Forward);
    EXPECT_EQ(relative_rms(changed["o"].slice(1, 0, cut), before->slice(1, 0, cut)), 0) << cut;
  }
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

/// Address space without memory behind it: pages exist once they are touched.
struct Reserved {
  static constexpr size_t kBytes = size_t{12} << 30;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ~Reserved() { if (memory != MAP_FAILED) munmap(memory, kBytes); }
};

// Rows 4, 18, 33: flash-linear-attention #1080, cudnn-frontend #1056, xLLM #2311. Rows 17 million numbers apart: the last lie beyond 2³¹.
TEST(KdaChunkWy, StridedRowsBeyondTwoToThe31ElementsAreReached) {
  const std::string axes = "b=1 t=140 h=1 d=16 dv=12";
  const Problem plain = filled("kda", axes, DType::F32);
  for (const Variant* variant : {&cpu(), &chunk_wy()}) {
    const Problem strided = plain.converted(DType::F32);
    run_variant(*variant, plain, Phase::Both);
    const Reserved far;
    if (far.memory == MAP_FAILED) GTEST_SKIP() << "no 12 GiB of address space";
    std::vector<TensorView> views(strided.views().begin(), strided.views().end());
    int64_t column = 0;
    constexpr int64_t kStride = 17'000'003;
    for (const char* name : {"q", "k", "v", "g", "do", "o", "dq", "dv", "dg"}) {
      TensorView& view = views[plain.component().index(name)];
      const TensorView from = strided[name];
      view.data = static_cast<float*>(far.memory) + column;
      view.strides[1] = kStride;
      ASSERT_GT(139 * kStride, int64_t{1} << 31);
      copy(from, view);
      column += 24;
    }
    const int64_t bytes = variant->workspace ? variant->workspace(strided.axes(), DType::F32, Phase::Both) : 0;
    std::vector<std::byte> workspace(static_cast<size_t>(bytes));
    Context context{.workspace = workspace};
    const Call call{strided.axes(), DType::F32, views, context};
    variant->forward(call);
    variant->backward(call);
    for (const char* name : {"o", "dq", "dv", "dg"}) EXPECT_EQ(relative_rms(views[plain.component().index(name)], plain[name]), 0) << variant->name << " " << name;
    for (const char* name : {"dk", "dbeta"}) EXPECT_EQ(relative_rms(strided[name], plain[name]), 0) << variant->name << " " << name;
  }
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

// Gradients are linear in the upstream: −1 and 0.5 change no bit but sign and exponent, 0 gives zeros.
TEST(KdaChunkWy, GradientsScaleWithTheUpstreamGradient) {
  const std::string axes = "b=1 t=100 h=1 d=16 carry=1";
  const Problem p = filled("kda", axes, DType::F32);
  run_variant(chunk_wy(), p, Phase::Both);
  for (const double factor : {-1.0, 0.5, 0.0}) {
    const Problem scaled = p.converted(DType::F32, true);
    for (const char* name : {"do", "dfinal_state"})
      for (int64_t i = 0; i < p[name].size(); ++i) set_value(scaled[name], i, factor * value_at(p[name], i));
    run_variant(chunk_wy(), scaled, Phase::Backward);
    for (const char* name : {"dq", "dk", "dv", "dg", "dbeta", "dA_log", "ddt_bias", "dinitial_state"})
      for (int64_t i = 0; i < p[name].size(); ++i) ASSERT_EQ(value_at(scaled[name], i), factor * value_at(p[name], i)) << name << " × " << factor;
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
