// attention/online_softmax against the fp64 oracle: every example, dtype and distribution, the borders of its tiles and
// blocks, what may not change a bit, and what may not be touched.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/gate.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::relative_rms;
using test::with_inputs_of;
using test::worst_difference;

const Variant& cpu() { return find_variant("attention", "cpu"); }
const Variant& fast() { return find_variant("attention", "online_softmax"); }
const char* const kResults[] = {"o", "lse", "dq", "dk", "dv"};

void expect_within_gate(const std::string& axes, DType dtype, const std::string& distribution) {
  test::expect_within_gate(fast(), cpu(), filled("attention", axes, dtype, distribution), axes + " " + distribution);
}

constexpr DType kDTypes[] = {DType::F64, DType::F32, DType::BF16, DType::F16};

TEST(OnlineSoftmax, PassesTheGateOnEveryExample) {
  for (const auto& axes : find_component("attention").examples)
    for (DType dtype : kDTypes)
      for (const char* distribution : {"normal", "aimed", "extreme", "tokens"}) expect_within_gate(axes, dtype, distribution);
}

TEST(OnlineSoftmax, PassesTheGateAroundTheBordersOfTiles) {
  for (int64_t t : {63, 64, 65, 127, 128, 129})
    for (const char* distribution : {"normal", "aimed"}) {
      expect_within_gate("b=1 h=2 hk=1 d=17 dv=9 t=" + std::to_string(t), DType::F32, distribution);
      expect_within_gate("b=2 h=2 d=16 docs=5 padding=3 causal=0 t=" + std::to_string(t), DType::BF16, distribution);
    }
}

TEST(OnlineSoftmax, PassesTheGateAcrossSeveralBlocks) {
  expect_within_gate("b=1 t=1100 h=2 hk=1 d=8 docs=3 padding=60", DType::F32, "aimed");
  expect_within_gate("b=1 t=1100 h=1 d=8 causal=0", DType::F32, "extreme");
  expect_within_gate("b=1 t=600 s=1100 h=1 d=8", DType::F32, "normal");
  expect_within_gate("b=1 t=1100 s=70 h=1 d=8 causal=0", DType::F32, "normal");
}

TEST(OnlineSoftmax, TakesAnyWidth) {
  for (int64_t d : {1, 7, 15, 16, 17, 33, 64, 100})
    for (int64_t dv : {1, 8, 16, 31, 80}) expect_within_gate("b=1 t=70 h=1 d=" + std::to_string(d) + " dv=" + std::to_string(dv), DType::F32, "normal");
}

TEST(OnlineSoftmax, IsExactOnExactInputs) {
  for (DType dtype : {DType::F32, DType::BF16})
    for (const char* axes : {"b=2 t=200 h=2 hk=1 d=16 docs=3", "b=1 t=130 h=2 d=64 causal=0"}) {
      Problem p = filled("attention", axes, dtype, "exact"), oracle = p.converted(DType::F64);
      run_variant(fast(), p, Phase::Both, 2);
      run_variant(cpu(), oracle, Phase::Both, 2);
      for (const char* field : {"o", "dq", "dk", "dv"}) EXPECT_EQ(relative_rms(p[field], oracle[field]), 0) << axes << " " << field;
    }
}

TEST(OnlineSoftmax, AnyNumberOfThreadsGivesTheSameBits) {
  const std::string axes = "b=2 t=300 h=4 hk=2 d=24 docs=3 padding=9";
  for (DType dtype : {DType::F32, DType::BF16}) {
    const Problem one = filled("attention", axes, dtype);
    run_variant(fast(), one, Phase::Both, 1);
    for (int threads : {2, 3, 8}) {
      const Problem many = with_inputs_of(one, axes);
      const int64_t bytes = 8 * fast().workspace(many.axes(), dtype, Phase::Both);  // room for eight threads on any machine
      const Tensor memory(DType::U8, {bytes});
      Context context;
      context.threads = threads;
      context.workspace = {static_cast<std::byte*>(memory->data), static_cast<size_t>(bytes)};
      const Call call{many.axes(), dtype, many.views(), context};
      fast().forward(call);
      fast().backward(call);
      for (const char* field : kResults)
        EXPECT_EQ(std::memcmp(many[field].data, one[field].data, static_cast<size_t>(one[field].bytes())), 0) << field << " on " << threads << " threads";
    }
  }
}

TEST(OnlineSoftmax, RowsDoNotDependOnTheirNeighbours) {
  Problem whole = filled("attention", "b=1 t=150 h=2 d=16", DType::F32), part = filled("attention", "b=1 t=90 h=2 d=16", DType::F32);
  for (Problem* p : {&whole, &part}) run_variant(fast(), *p, Phase::Forward);
  EXPECT_EQ(relative_rms(clone(whole["o"].slice(1, 0, 90)), part["o"]), 0) << "a causal prefix has the same bits";
}

TEST(OnlineSoftmax, WritesWideResultsForSchemesThatAddThemUp) {
  const std::string axes = "b=1 t=100 h=2 hk=1 d=16 docs=2";
  for (DType dtype : {DType::BF16, DType::F16}) {
    Problem p = filled("attention", axes, dtype), oracle = p.converted(DType::F64);
    for (const char* field : {"o", "dq", "dk", "dv"}) p.replace(field, Tensor(DType::F32, p[field].shape));
    run_variant(fast(), p, Phase::Both, 2);
    run_variant(cpu(), oracle, Phase::Both, 2);
    for (const char* field : kResults) EXPECT_LT(relative_rms(p[field], oracle[field]), 2e-6) << to_string(dtype) << " " << field << ": fp32 results of narrow inputs";
  }
}

TEST(OnlineSoftmax, ReadsAndWritesThroughStrides) {
  const std::string axes = "b=2 t=70 h=4 hk=4 d=8 docs=2";
  Problem plain = filled("attention", axes, DType::F32), fused = with_inputs_of(plain, axes);
  // One buffer [b, t, head, 3, d] for q, k, v and one for their gradients, as a fused projection writes them.
  const Tensor qkv(DType::F32, {2, 70, 4, 3, 8}), gradients(DType::F32, {2, 70, 4, 3, 8});
  std::vector<TensorView> views(fused.views().begin(), fused.views().end());
  const auto part = [](const Tensor& buffer, int64_t index) {
    const TensorView slice = buffer->slice(3, index, index + 1);
    TensorView view(slice.data, slice.dtype, {2, 70, 4, 8});
    view.strides = {slice.strides[0], slice.strides[1], slice.strides[2], slice.strides[4]};
    return view;
  };
  const Component& c = plain.component();
  int64_t index = 0;
  for (const char* field : {"q", "k", "v"}) {
    copy(plain[field], part(qkv, index));
    views[c.index(field)] = part(qkv, index);
    views[c.index("d" + std::string(field))] = part(gradients, index++);
  }
  Context context;
  const Tensor memory(DType::U8, {fast().workspace(plain.axes(), DType::F32, Phase::Both)});
  context.workspace = {static_cast<std::byte*>(memory->data), static_cast<size_t>(memory->size())};
  const Call call{plain.axes(), DType::F32, views, context};
  fast().forward(call);
  fast().backward(call);
  run_variant(fast(), plain, Phase::Both);
  for (const char* field : kResults) EXPECT_EQ(relative_rms(clone(views[c.index(field)]), plain[field]), 0) << field;

  // Elements of a row need not lie side by side either.
  Problem turned = with_inputs_of(plain, axes);
  Tensor q(DType::F32, {8, 2, 70, 4});
  TensorView view(q->data, DType::F32, {2, 70, 4, 8});
  view.strides = {70 * 4, 4, 1, 2 * 70 * 4};
  copy(plain["q"], view);
  std::vector<TensorView> turned_views(turned.views().begin(), turned.views().end());
  turned_views[c.index("q")] = view;
  fast().forward({plain.axes(), DType::F32, turned_views, context});
  EXPECT_EQ(relative_rms(turned["o"], plain["o"]), 0);
}

TEST(OnlineSoftmax, PaddingIsInvisibleWhateverItHolds) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    const std::string axes = "b=2 t=150 h=2 hk=1 d=8 docs=3 padding=30";
    const Problem clean = filled("attention", axes, dtype);
    Problem dirty = with_inputs_of(clean, axes);
    for (const char* field : {"q", "k", "v", "do"}) fill(dirty[field].slice(1, 120, 150), std::nan(""));
    for (const Problem* p : {&clean, static_cast<const Problem*>(&dirty)}) run_variant(fast(), *p, Phase::Both);
    EXPECT_EQ(worst_difference(dirty, clean), 0) << to_string(dtype);
  }
}

TEST(OnlineSoftmax, NaNsAreNotHidden) {
  Problem p = filled("attention", "b=1 t=100 h=1 d=4", DType::F32);
  set_value(p["q"], 70 * 4, std::nan(""));
  run_variant(fast(), p, Phase::Forward);
  EXPECT_TRUE(std::isnan(value_at(p["o"], 70 * 4)));
  EXPECT_TRUE(std::isnan(value_at(p["lse"], 70)));
  EXPECT_FALSE(std::isnan(value_at(p["o"], 71 * 4)));
}

TEST(OnlineSoftmax, KeysOfAnyOrderArePairedByPositionAndDocument) {
  const std::string axes = "b=1 t=140 h=2 d=8 docs=3";
  const Problem a = filled("attention", axes, DType::F32);
  Problem b = with_inputs_of(a, axes);
  std::vector<int64_t> order(140);
  for (int64_t i = 0; i < 140; ++i) order[static_cast<size_t>(i)] = i * 37 % 140;  // scattered, so that no tile is wholly visible or hidden
  for (const char* field : {"k", "v", "k_document"}) copy(gather_rows(a[field], 1, order), b[field]);
  copy(gather_rows(a["k_position"], 0, order), b["k_position"]);
  for (const Problem* p : {&a, static_cast<const Problem*>(&b)}) run_variant(fast(), *p, Phase::Both);
  for (const char* field : {"o", "lse", "dq"}) EXPECT_LT(relative_rms(b[field], a[field]), 2e-6) << field;
  for (const char* field : {"dk", "dv"}) EXPECT_LT(relative_rms(b[field], gather_rows(a[field], 1, order)), 2e-6) << field;
}

TEST(OnlineSoftmax, SaysWhenItsWorkspaceIsTooSmall) {
  const Problem p = filled("attention", "b=1 t=10 h=1 d=4", DType::F32);
  Context context;
  const Call call{p.axes(), DType::F32, p.views(), context};
  EXPECT_NE(test::message_of([&] { fast().forward(call); }).find("workspace"), std::string::npos);
  EXPECT_NE(test::message_of([&] { fast().backward(call); }).find("workspace"), std::string::npos);
}

}  // namespace
}  // namespace megatoken
