// The gate rule, the metrics, and the guard around a run.
#include "harness/check/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/check/planted.hpp"
#include "harness/check/strategies.hpp"

namespace megatoken {
namespace {

Tensor make(std::initializer_list<double> values) {
  Tensor t(DType::F64, {static_cast<int64_t>(values.size())});
  int64_t i = 0;
  for (double v : values) set_value(t, i++, v);
  return t;
}

TEST(Compare, MeasuresKnownErrors) {
  const Comparison c = compare(make({3, 4, 1}), make({3, 4, 0}));
  EXPECT_DOUBLE_EQ(c.rel_rms, 1.0 / 5);
  EXPECT_EQ(c.wrong, 1);
  EXPECT_EQ(c.worst, 2);
  EXPECT_DOUBLE_EQ(c.max_error, 1 / std::sqrt(25.0 / 3));
}

TEST(Compare, NeverPassesNaNsOrTheWrongInfinity) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_EQ(compare(make({1, -inf}), make({1, -inf})).rel_rms, 0);
  EXPECT_EQ(compare(make({1, -inf}), make({1, -inf})).nonfinite, 0);
  for (double bad : {nan, inf, 0.0}) EXPECT_TRUE(std::isinf(compare(make({1, bad}), make({1, -inf})).rel_rms)) << bad;
  EXPECT_TRUE(std::isinf(compare(make({1, nan}), make({1, 2})).rel_rms));
}

TEST(Compare, AllZeroOutputIsWhollyWrong) { EXPECT_DOUBLE_EQ(compare(make({0, 0, 0}), make({1e-3, -2e-3, 1e-3})).rel_rms, 1); }

TEST(Judge, LimitIsFactorTimesTheLargerOfYardstickAndFloor) {
  const Component& c = find_component("attention");
  const Field& o = c.fields[c.index("o")];
  const Tensor want = make({1, 1, 1, 1}), naive = make({1.01, 1, 1, 1}), good = make({1.015, 1, 1, 1}), bad = make({1.03, 1, 1, 1});
  const auto rule = [&](const Tensor& got, const TensorView* yardstick) { return judge(c, o, "full", "test", got, want, yardstick, DType::BF16, Tolerances::standard()); };
  EXPECT_NEAR(rule(good, &naive.view()).limit, 2 * 0.005, 1e-12);
  EXPECT_TRUE(rule(good, &naive.view()).passed);
  EXPECT_FALSE(rule(bad, &naive.view()).passed);
  EXPECT_NEAR(rule(good, nullptr).limit, 2e-3, 1e-12);
  EXPECT_FALSE(rule(good, nullptr).passed);
}

TEST(Judge, AYardstickThatOverflowsExcusesNothing) {
  const Component& c = find_component("attention");
  const Tensor want = make({1, 1}), naive = make({std::nan(""), 1}), got = make({1.5, 1});
  EXPECT_FALSE(judge(c, c.fields[c.index("o")], "full", "test", got, want, &naive.view(), DType::F32, Tolerances::standard()).passed);
}

TEST(Judge, OneElementFarOffIsSeenInALargeTensorUnlessTheNaiveVariantHasSuchTailsToo) {
  const Component& c = find_component("attention");
  const Field& o = c.fields[c.index("o")];
  Tensor want(DType::F64, {1000000}), got, naive;
  fill(want, 1);
  got = clone(want), naive = clone(want);
  set_value(got, 5, 1 + 1e-4);  // relative RMS 1e-7, far below the floor of fp32
  const auto rule = [&] { return judge(c, o, "full", "test", got, want, &naive.view(), DType::F32, Tolerances::standard()); };
  EXPECT_TRUE(rule().passed) << "one in a million is allowed";
  set_value(got, 6, 1 + 1e-4);
  EXPECT_FALSE(rule().passed);
  set_value(naive, 99, 1 + 0.5e-4);
  EXPECT_TRUE(rule().passed);
}

TEST(Coordinate, NamesAxes) { EXPECT_EQ(coordinate("b t h", {2, 5, 3}, (1 * 5 + 4) * 3 + 2), "b=1,t=4,h=2"); }
TEST(Coordinate, OfAnEmptyTensorIsItsOrigin) { EXPECT_EQ(coordinate("b t h", {2, 0, 3}, 0), "b=0,t=0,h=0"); }

TEST(SampleIndices, HoldTheBordersAndAreUnique) {
  const auto index = sample_indices(65536, 24, 4, 0);
  EXPECT_EQ(index.size(), 24u);
  EXPECT_TRUE(std::is_sorted(index.begin(), index.end()));
  EXPECT_EQ(std::set<int64_t>(index.begin(), index.end()).size(), index.size());
  for (int64_t border : {0, 65535, 16384, 16383, 32768, 32767}) EXPECT_THAT(index, testing::Contains(border));
  EXPECT_EQ(sample_indices(3, 24, 1, 0).size(), 3u);
  EXPECT_TRUE(sample_indices(0, 24, 1, 0).empty());
}

Case small_case() { return Case::parse("attention/cpu fwd_bwd fp32 t=40 h=2 d=8 docs=2"); }

CaseReport check_with(std::function<void(Variant&)> change) {
  const Case test = small_case();
  Subject subject = Subject::of(test, 1);
  change(subject.variant);
  CheckOptions options;
  options.strategies = strategy_names();
  return check_subject(subject, test, options);
}

TEST(CheckCase, PassesTheTruth) {
  const CaseReport report = check_with([](Variant&) {});
  EXPECT_EQ(report.status, "pass") << report.reason;
  std::set<std::string> strategies;
  for (const auto& check : report.checks) strategies.insert(check.strategy);
  for (const char* strategy : {"hygiene", "full", "rows", "cols", "prefix", "shift", "repeat"}) EXPECT_TRUE(strategies.count(strategy)) << strategy;
  EXPECT_EQ(report.deterministic, 1);
}

TEST(CheckCase, ABackwardCaseRunsTheForwardItReads) {
  Case test = small_case();
  test.phase = Phase::Backward;
  const CaseReport report = check_case(test, {});
  EXPECT_EQ(report.status, "pass") << report.reason;
}

TEST(CheckCase, SeesWritesOutsideABufferChangedInputsAndUnwrittenOutputs) {
  const Component& c = find_component("attention");
  const size_t o = c.index("o"), q = c.index("q");
  const auto after = [&](std::function<void(const Call&)> harm) {
    return check_with([=](Variant& v) { v.forward = [right = v.forward, harm](const Call& call) { right(call), harm(call); }; });
  };
  const auto past_end = after([=](const Call& call) { call.views[o].as<float>()[call.views[o].size()] = 1; });
  EXPECT_EQ(past_end.status, "fail");
  EXPECT_THAT(past_end.reason, testing::HasSubstr("after o was overwritten"));
  const auto input = after([=](const Call& call) { call.views[q].as<float>()[3] += 1; });
  EXPECT_THAT(input.reason, testing::HasSubstr("input q was changed"));
  const auto nothing = check_with([](Variant& v) { v.forward = [](const Call&) {}; });
  EXPECT_EQ(nothing.status, "fail");
}

TEST(CheckCase, AScanTakesAsManyWholeSequencesAsTheFlopsAllow) {
  Case test = Case::parse("kda/cpu fwd fp32 t=64 h=8 d=4");
  CheckOptions options;
  options.strategies = {"scan"};
  const auto compared = [&](double heads) {
    Axes axes = test.axes;
    axes.set("h", heads);
    options.full_flops = find_component("kda").cost(axes, test.dtype, test.phase).flops;
    return check_case(test, options).checks.front().comparison.compared / (64 * 4);
  };
  EXPECT_EQ(compared(8), 8);
  EXPECT_EQ(compared(3), 3);
  EXPECT_EQ(compared(1), 2) << "the first and the last, whatever they cost";
}

TEST(CheckCase, NoStrategyThatComparesEverythingIsAffordableBeyondTheFlops) {
  const Case test = small_case();
  CheckOptions options;
  EXPECT_EQ(affordable_strategies(test, options), strategy_names());
  options.full_flops = 1;
  EXPECT_THAT(affordable_strategies(test, options), testing::ElementsAre("hygiene", "ledger", "rows", "cols", "scan", "prefix", "shift", "repeat"));
}

TEST(CheckCase, ADocumentShiftedIntoManyOthersIsJudgedAlone) {
  CheckOptions options;
  options.strategies = {"shift"};
  for (const char* key : {"attention/cpu fwd_bwd fp32 b=2 t=210 h=2 d=8 docs=7", "attention/cpu fwd_bwd fp32 b=2 t=210 h=2 d=8 docs=1 padding=9",
                          "index_topk/streaming fwd fp32 b=2 t=210 h=2 d=8 topk=4 docs=7", "kda/cpu fwd_bwd fp32 b=2 t=210 h=2 d=8 docs=7"}) {
    const CaseReport report = check_case(Case::parse(key), options);
    EXPECT_EQ(report.status, "pass") << key << ": " << report.reason;
  }
}

TEST(CheckCase, AThrowingVariantIsAnErrorRow) {
  const auto report = check_with([](Variant& v) { v.forward = [](const Call&) { throw Error(ErrorKind::Environment, "the kernel broke"); }; });
  EXPECT_EQ(report.status, "error");
  EXPECT_THAT(report.reason, testing::HasSubstr("the kernel broke"));
}

TEST(CheckCase, ANondeterministicVariantMustSaySo) {
  const Component& c = find_component("attention");
  const size_t o = c.index("o");
  auto counter = std::make_shared<int>(0);
  const auto shaky = [=](Variant& v) {
    v.forward = [right = v.forward, counter, o](const Call& call) {
      right(call);
      if (++*counter % 2) call.views[o].as<float>()[0] *= 1 + 1e-7f;
    };
  };
  EXPECT_EQ(check_with(shaky).status, "fail");
  const auto honest = check_with([&](Variant& v) { shaky(v), v.deterministic = false; });
  EXPECT_EQ(honest.status, "pass") << honest.reason;
  EXPECT_EQ(honest.deterministic, 0);
}

TEST(JudgeFault, AFaultOfOneVariantIsPlantedThereAndSkippedForOthers) {
  Fault fault{.component = "attention", .name = "nothing_written", .plant = [](const Variant& truth) {
                Variant wrong = truth;
                wrong.forward = [](const Call&) {};
                return wrong;
              },
              .variant = "online_softmax", .axes = "t=40 h=2 d=8", .distributions = {"aimed"}};
  CheckOptions options;
  const FaultReport report = judge_fault(fault, "cpu", options);
  EXPECT_TRUE(report.rejected);
  for (const Trial& trial : report.trials) EXPECT_EQ(trial.variant + " " + trial.distribution, "online_softmax aimed");
  EXPECT_THAT(judge_fault(fault, "gpu", options).skipped, testing::HasSubstr("attention/online_softmax"));
}

}  // namespace
}  // namespace megatoken
