// kda: identities that need no second implementation, borders, states carried over cuts, refusals.
#include <gtest/gtest.h>

#include "reference/components/kda/columns.hpp"
#include "reference/core/loops.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::message_of;
using test::relative_rms;

const Variant& cpu() { return find_variant("kda", "cpu"); }

const char* const kGiven = " gate=0 beta=0 l2norm=0";
const char* const kByToken[] = {"q", "k", "v", "g", "beta", "document", "do"};
const char* const kResultsByToken[] = {"o", "dq", "dk", "dv", "dg", "dbeta"};

void add(const TensorView& sum, const TensorView& term) {
  for (int64_t i = 0; i < sum.size(); ++i) set_value(sum, i, value_at(sum, i) + value_at(term, i));
}

void copy_parameters(const Problem& from, const Problem& to) {
  for (const char* name : {"A_log", "dt_bias"}) copy(from[name], to[name]);
}

// Without decay and with orthonormal keys the delta rule removes nothing: plain linear attention.
TEST(Kda, WithOrthonormalKeysAndNoDecayIsLinearAttention) {
  Problem p = filled("kda", std::string("b=1 t=5 h=1 d=5 dv=3") + kGiven);
  fill(p["g"], 0);
  fill(p["beta"], 1);
  for (int64_t i = 0; i < 25; ++i) set_value(p["k"], i, i / 5 == i % 5 ? 1 : 0);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t t = 0; t < 5; ++t)
    for (int64_t e = 0; e < 3; ++e) {
      double want = 0;
      for (int64_t s = 0; s <= t; ++s) want += value_at(p["q"], t * 5 + s) * value_at(p["v"], s * 3 + e) / std::sqrt(5.0);
      EXPECT_NEAR(value_at(p["o"], t * 3 + e), want, 1e-15);
    }
}

// With β = 1 and the same unit key, the state forgets what it held and returns the last value exactly.
TEST(Kda, IdenticalKeysReturnTheLastValue) {
  Problem p = filled("kda", std::string("b=1 t=70 h=1 d=2 dv=3 scale=1") + kGiven);
  fill(p["g"], 0);
  fill(p["beta"], 1);
  for (const char* name : {"q", "k"})
    for (int64_t i = 0; i < 140; ++i) set_value(p[name], i, i % 2 == 0 ? 1 : 0);
  run_variant(cpu(), p, Phase::Forward);
  EXPECT_LE(relative_rms(p["o"], p["v"]), 1e-14);
}

TEST(Kda, BoundMultipliesTheSigmoidAndBetaZeroOnlyDecays) {
  Problem p = filled("kda", "b=1 t=1 h=2 d=3 dv=2 beta=0 carry=1 lower_bound=-5");
  fill(p["beta"], 0);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t i = 0; i < p["final_state"].size(); ++i) {
    const int64_t c = i / 2;  // head and channel
    const double y = std::exp(value_at(p["A_log"], c / 3)) * (value_at(p["g"], c) + value_at(p["dt_bias"], c));
    EXPECT_NEAR(value_at(p["final_state"], i), value_at(p["initial_state"], i) * std::exp(-5 / (1 + std::exp(-y))), 1e-15);
  }
}

TEST(Kda, SoftplusGateHasNoLowerBound) {
  Problem p = filled("kda", "b=1 t=1 h=1 d=2 dv=1 gate=1 beta=0 carry=1");
  fill(p["A_log"], 0);
  fill(p["dt_bias"], 0);
  fill(p["beta"], 0);
  set_value(p["g"], 0, 40);  // softplus(40) = 40
  set_value(p["g"], 1, 0);   // softplus(0) = ln 2
  run_variant(cpu(), p, Phase::Forward);
  EXPECT_NEAR(value_at(p["final_state"], 0) / (value_at(p["initial_state"], 0) * std::exp(-40.0)), 1, 1e-13);
  EXPECT_NEAR(value_at(p["final_state"], 1), value_at(p["initial_state"], 1) / 2, 1e-15);
}

// mlx-lm 1624: eps on the mean is 0.57 % wrong at amplitude 0.01 and 87 % at 0.0001.
TEST(Kda, NormAddsEpsToTheSumOfSquares) {
  Problem p = filled("kda", "b=1 t=1 h=1 d=4 dv=1 beta=0 scale=1");
  fill(p["beta"], 1);
  fill(p["q"], 1e-4);
  fill(p["k"], 1e-4);
  fill(p["v"], 1);
  run_variant(cpu(), p, Phase::Forward);
  EXPECT_NEAR(value_at(p["o"], 0), 4e-8 / (4e-8 + 1e-6), 1e-15);
}

TEST(Kda, DoubledBetaReachesTwo) {
  Problem p = filled("kda", "b=1 t=1 h=1 d=1 dv=1 beta=2 l2norm=0 scale=1");
  fill(p["q"], 1);
  fill(p["k"], 1);
  fill(p["v"], 1);
  fill(p["beta"], 40);
  run_variant(cpu(), p, Phase::Forward);
  EXPECT_NEAR(value_at(p["o"], 0), 2, 1e-15);
}

// attention-gym 465: Sᵀk rounded to bf16 before the subtraction turns a residual of −2 into 0 and dβ from −256 into 0.
TEST(Kda, ResidualIsSubtractedBeforeAnyRounding) {
  Problem p = filled("kda", std::string("b=1 t=1 h=1 d=1 dv=1 carry=1 scale=1") + kGiven, DType::BF16);
  fill(p["initial_state"], 4098);
  fill(p["v"], 4096);
  fill(p["g"], 0);
  for (const char* name : {"q", "k"}) fill(p[name], 1);
  fill(p["beta"], 0.25);
  fill(p["do"], 128);
  fill(p["dfinal_state"], 0);
  run_variant(cpu(), p, Phase::Both);
  EXPECT_EQ(value_at(p["final_state"], 0), 4097.5);
  EXPECT_EQ(value_at(p["dbeta"], 0), -256);
}

// attention-gym #337, flash-linear-attention #1240: a prefix must be the same to the bit whatever gates follow.
TEST(Kda, PrefixDoesNotDependOnTheFuture) {
  Problem p = filled("kda", "b=1 t=40 h=2 d=4", DType::F32);
  run_variant(cpu(), p, Phase::Forward);
  const Tensor before = clone(p["o"]);
  for (const char* name : {"q", "k", "v", "g", "beta"}) fill(p[name].slice(1, 21, 40), 3);
  run_variant(cpu(), p, Phase::Forward);
  EXPECT_EQ(relative_rms(p["o"].slice(1, 0, 21), before->slice(1, 0, 21)), 0);
}

TEST(Kda, PackedDocumentsEqualDocumentsAlone) {
  Problem packed = filled("kda", "b=1 t=31 h=2 group=2 d=3 dv=2 docs=4");
  run_variant(cpu(), packed, Phase::Both);
  const auto* document = packed["document"].as<int32_t>();
  Tensor a_log = Tensor::zeros(DType::F64, packed["dA_log"].shape), dt_bias = Tensor::zeros(DType::F64, packed["ddt_bias"].shape);
  int64_t documents = 0;
  for (int64_t begin = 0, end; begin < 31; begin = end, ++documents) {
    end = begin;
    while (end < 31 && document[end] == document[begin]) ++end;
    Problem alone = filled("kda", "b=1 h=2 group=2 d=3 dv=2 t=" + std::to_string(end - begin));
    for (const char* name : kByToken) copy(packed[name].slice(1, begin, end), alone[name]);
    copy_parameters(packed, alone);
    run_variant(cpu(), alone, Phase::Both);
    for (const char* name : kResultsByToken) EXPECT_EQ(relative_rms(alone[name], packed[name].slice(1, begin, end)), 0) << name << " of rows " << begin;
    add(a_log, alone["dA_log"]);
    add(dt_bias, alone["ddt_bias"]);
  }
  EXPECT_GE(documents, 3);
  EXPECT_LE(relative_rms(a_log, packed["dA_log"]), 1e-13);
  EXPECT_LE(relative_rms(dt_bias, packed["ddt_bias"]), 1e-13);
}

// vllm #51039, #52909: chunked prefill must equal one shot; accelerate #4177: gradients of every shard, not only the first.
// d ≠ dv, so a state that is handed over transposed (vllm #41292) cannot pass.
TEST(Kda, CutsWithACarriedStateLeaveNoTrace) {
  const std::string shape = "h=1 group=2 d=3 dv=2 carry=1";
  Problem whole = filled("kda", "b=2 t=29 docs=2 " + shape);
  run_variant(cpu(), whole, Phase::Both);
  const std::vector<int64_t> cuts{0, 1, 3, 10, 11, 24, 29};
  const auto document = [&](int64_t b, int64_t i) { return value_at(whole["document"], b * 29 + i); };
  std::vector<Problem> shards;
  for (size_t s = 0; s + 1 < cuts.size(); ++s) {
    shards.push_back(filled("kda", "b=2 " + shape + " t=" + std::to_string(cuts[s + 1] - cuts[s])));
    Problem& shard = shards.back();
    for (const char* name : kByToken) copy(whole[name].slice(1, cuts[s], cuts[s + 1]), shard[name]);
    copy_parameters(whole, shard);
    copy(s == 0 ? whole["initial_state"] : shards[s - 1]["final_state"], shard["initial_state"]);
    for (int64_t b = 0; b < 2 && s > 0; ++b)  // a document that starts at the cut has no state
      if (document(b, cuts[s]) != document(b, cuts[s] - 1)) fill(shard["initial_state"].slice(0, b, b + 1), 0);
    run_variant(cpu(), shard, Phase::Forward);
    EXPECT_EQ(relative_rms(shard["o"], whole["o"].slice(1, cuts[s], cuts[s + 1])), 0) << "shard " << s;
  }
  EXPECT_EQ(relative_rms(shards.back()["final_state"], whole["final_state"]), 0);

  Tensor a_log = Tensor::zeros(DType::F64, whole["dA_log"].shape);
  for (size_t s = shards.size(); s-- > 0;) {
    Problem& shard = shards[s];
    copy(s + 1 == shards.size() ? whole["dfinal_state"] : shards[s + 1]["dinitial_state"], shard["dfinal_state"]);
    for (int64_t b = 0; b < 2 && s + 1 < shards.size(); ++b)
      if (document(b, cuts[s + 1]) != document(b, cuts[s + 1] - 1)) fill(shard["dfinal_state"].slice(0, b, b + 1), 0);
    run_variant(cpu(), shard, Phase::Backward);
    for (const char* name : {"dq", "dk", "dv", "dg", "dbeta"}) EXPECT_LE(relative_rms(shard[name], whole[name].slice(1, cuts[s], cuts[s + 1])), 1e-14) << name << " of shard " << s;
    add(a_log, shard["dA_log"]);
  }
  EXPECT_LE(relative_rms(shards.front()["dinitial_state"], whole["dinitial_state"]), 1e-14);
  EXPECT_LE(relative_rms(a_log, whole["dA_log"]), 1e-13);
}

// flash-linear-attention #624: wrong or NaN when value heads outnumber key heads.
TEST(Kda, GroupedValueHeadsEqualRepeatedKeyHeads) {
  Problem grouped = filled("kda", "b=1 t=9 h=2 group=3 d=3 dv=2"), repeated = filled("kda", "b=1 t=9 h=6 d=3 dv=2");
  for (const char* name : {"v", "g", "beta", "do", "A_log", "dt_bias"})
    for (int64_t i = 0; i < grouped[name].size(); ++i) set_value(repeated[name], i, value_at(grouped[name], i));
  for (const char* name : {"q", "k"})
    for (int64_t i = 0; i < repeated[name].size(); ++i) set_value(repeated[name], i, value_at(grouped[name], i / 18 * 6 + i % 18 / 9 * 3 + i % 3));
  run_variant(cpu(), grouped, Phase::Both);
  run_variant(cpu(), repeated, Phase::Both);
  for (const char* name : {"o", "dv", "dg", "dbeta", "dA_log", "ddt_bias"})
    for (int64_t i = 0; i < grouped[name].size(); ++i) EXPECT_DOUBLE_EQ(value_at(grouped[name], i), value_at(repeated[name], i)) << name;
  for (const char* name : {"dq", "dk"})
    for (int64_t i = 0; i < grouped[name].size(); ++i) {
      double sum = 0;
      for (int64_t n = 0; n < 3; ++n) sum += value_at(repeated[name], i / 6 * 18 + i % 6 / 3 * 9 + n * 3 + i % 3);
      EXPECT_NEAR(value_at(grouped[name], i), sum, 1e-14) << name;
    }
}

TEST(Kda, OutputIsLinearInValuesAndInitialState) {
  Problem a = filled("kda", "b=1 t=12 h=1 d=3 carry=1"), b = test::with_inputs_of(a, "b=1 t=12 h=1 d=3 carry=1");
  fill_normal(b["v"], 1, "other v");
  fill_normal(b["initial_state"], 1, "other state");
  Problem sum = test::with_inputs_of(a, "b=1 t=12 h=1 d=3 carry=1");
  for (const char* name : {"v", "initial_state"}) add(sum[name], b[name]);
  for (Problem* p : {&a, &b, &sum}) run_variant(cpu(), *p, Phase::Forward);
  for (const char* name : {"o", "final_state"}) {
    add(a[name], b[name]);
    EXPECT_LE(relative_rms(sum[name], a[name]), 1e-14) << name;
  }
}

// flash-linear-attention-npu #266: rows behind the last document must not stay unwritten.
TEST(Kda, PaddingRowsAreZeroAndTheStatePassesBy) {
  Problem p = filled("kda", "b=1 t=9 h=1 d=3 carry=1"), real = filled("kda", "b=1 t=6 h=1 d=3 carry=1");
  for (int64_t i = 6; i < 9; ++i) set_value(p["document"], i, -1);
  for (const char* name : {"q", "k", "v", "g", "beta", "do"}) copy(p[name].slice(1, 0, 6), real[name]);
  for (const char* name : {"A_log", "dt_bias", "initial_state", "dfinal_state"}) copy(p[name], real[name]);
  run_variant(cpu(), p, Phase::Both);
  run_variant(cpu(), real, Phase::Both);
  for (const char* name : kResultsByToken) {
    EXPECT_EQ(relative_rms(p[name].slice(1, 0, 6), real[name]), 0) << name;
    for (int64_t i = 0; i < p[name].size() / 3; ++i) EXPECT_EQ(value_at(p[name], p[name].size() / 9 * 6 + i), 0) << name;
  }
  for (const char* name : {"final_state", "dinitial_state", "dA_log", "ddt_bias"}) EXPECT_EQ(relative_rms(p[name], real[name]), 0) << name;
}

// cudnn-frontend #1017, flashinfer #3536: a batch without tokens, and empty documents.
TEST(Kda, WithoutTokensTheStatePassesThrough) {
  Problem p = filled("kda", "b=2 t=0 h=2 d=3 carry=1");
  run_variant(cpu(), p, Phase::Both);
  EXPECT_EQ(relative_rms(p["final_state"], p["initial_state"]), 0);
  EXPECT_EQ(relative_rms(p["dinitial_state"], p["dfinal_state"]), 0);
  for (const char* name : {"dA_log", "ddt_bias"})
    for (int64_t i = 0; i < p[name].size(); ++i) EXPECT_EQ(value_at(p[name], i), 0);
}

// xLLM #2311, cudnn-frontend #1056: q, k, v as views of one fused projection; flash-linear-attention #871: a strided dO.
TEST(Kda, HonoursStridesOfAFusedProjection) {
  const std::string axes = "b=2 t=7 h=2 d=3";
  Problem p = filled("kda", axes), strided = test::with_inputs_of(p, axes);
  run_variant(cpu(), p, Phase::Both);
  const Tensor fused = Tensor::zeros(DType::F64, {2, 7, 2, 1, 20});
  std::vector<TensorView> views(strided.views().begin(), strided.views().end());
  int64_t column = 1;
  for (const char* name : {"q", "k", "v", "do", "o"}) {
    TensorView view = fused->slice(4, column, column + 3);
    if (strided[name].shape.rank() == 4) {  // no group axis
      view.shape = strided[name].shape;
      view.strides = {view.strides[0], view.strides[1], view.strides[2], view.strides[4]};
    }
    copy(strided[name], view);
    views[p.component().index(name)] = view;
    column += 4;
  }
  Context context;
  const Call call{strided.axes(), DType::F64, views, context};
  cpu().forward(call);
  cpu().backward(call);
  EXPECT_EQ(relative_rms(views[p.component().index("o")], p["o"]), 0);
  for (const char* name : {"dq", "dk", "dv", "dg", "dbeta", "dA_log"}) EXPECT_EQ(relative_rms(strided[name], p[name]), 0) << name;
}

TEST(Kda, LowerPrecisionFollowsTheOracleWithinItsRounding) {
  for (const auto& [dtype, limit] : {std::pair{DType::F32, 5e-6}, std::pair{DType::BF16, 5e-3}, std::pair{DType::F16, 1e-3}})
    for (const char* distribution : {"normal", "aimed", "extreme"}) {
      Problem low = filled("kda", "b=2 t=80 h=1 group=2 d=8 docs=2 carry=1", dtype, distribution);
      Problem oracle = low.converted(DType::F64);
      run_variant(cpu(), low, Phase::Both);
      run_variant(cpu(), oracle, Phase::Both);
      EXPECT_LE(test::worst_difference(low, oracle), limit) << to_string(dtype) << " " << distribution;
    }
}

TEST(Kda, DoesNotDependOnTheThreadCount) {
  const std::string axes = "b=2 t=30 h=2 group=2 d=5 docs=3 carry=1";
  Problem one = filled("kda", axes, DType::F32), four = test::with_inputs_of(one, axes);
  run_variant(cpu(), one, Phase::Both, 1);
  run_variant(cpu(), four, Phase::Both, 4);
  EXPECT_EQ(test::worst_difference(four, one), 0);
}

/// The loops of the GPU twin, run on the CPU in a workspace full of NaN.
void run_columns(const Problem& problem) {
  const kda::Shape shape(problem.axes());
  const auto x = bind_fields<kda::Tensors>(problem.views());
  std::vector<std::byte> workspace(static_cast<size_t>(kda::column_workspace(shape, DType::F64, Phase::Both)), std::byte{0xff});
  kda::Columns<double, CpuLoop>(shape, x, Phase::Forward, workspace, {}).forward();
  kda::Columns<double, CpuLoop>(shape, x, Phase::Backward, workspace, {}).backward();
}

TEST(Kda, LoopsOfTheGpuTwinEqualTheOracle) {
  for (const std::string& axes : find_component("kda").examples)
    for (const char* distribution : {"normal", "extreme"}) {
      const Problem want = filled("kda", axes, DType::F64, distribution), got = filled("kda", axes, DType::F64, distribution);
      run_variant(cpu(), want, Phase::Both);
      run_columns(got);
      EXPECT_LE(test::worst_difference(got, want), 1e-13) << axes << " " << distribution;
    }
}

TEST(Kda, LoopsOfTheGpuTwinDoNotSeePadding) {
  const Problem want = filled("kda", "b=2 t=20 h=2 group=2 d=3 dv=2 carry=1");
  for (int64_t i = 0; i < 40; ++i)
    if (i % 20 >= 15) set_value(want["document"], i, -1);
  const Problem got = want.converted(DType::F64);
  for (const char* name : {"q", "k", "v", "g", "beta", "do"}) fill(got[name].slice(1, 15, 20), std::nan(""));
  run_variant(cpu(), want, Phase::Both);
  run_columns(got);
  EXPECT_LE(test::worst_difference(got, want), 1e-13);
}

TEST(Kda, RefusesBoundsNormsAndGatesThatDoNotFit) {
  EXPECT_NE(message_of([] { filled("kda", "lower_bound=5"); }).find("lower_bound=5 is not valid, expected a negative number"), std::string::npos);
  EXPECT_NE(message_of([] { filled("kda", "eps=0"); }).find("eps=0 is not valid, expected a positive number"), std::string::npos);
  EXPECT_NE(message_of([] { filled("kda", "gate=3"); }).find("gate=3 is not valid"), std::string::npos);
  EXPECT_EQ(message_of([] { filled("kda", "t=2 eps=0 l2norm=0"); }), "");
}

}  // namespace
}  // namespace megatoken
