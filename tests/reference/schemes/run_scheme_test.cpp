// Cutting, collecting, and the naive scheme against one rank.
#include "reference/schemes/run_scheme.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace megatoken {
namespace {

const std::vector<const char*> kResults{"o", "lse", "dq", "dk", "dv"};

Problem attention(const std::string& axes, DType dtype, const std::string& distribution = "normal", uint64_t seed = 1) {
  const Component& component = find_component("attention");
  Problem problem(component, component.complete(Axes::parse(axes)), dtype);
  problem.fill(distribution, seed);
  return problem;
}

void expect_same_bits(const TensorView& a, const TensorView& b, const std::string& name) {
  ASSERT_EQ(a.bytes(), b.bytes());
  int64_t wrong = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = value_at(a, i), y = value_at(b, i);
    wrong += !(x == y);
  }
  EXPECT_EQ(wrong, 0) << name << " of " << a.size() << " elements";
}

TEST(Gather, EqualsOneRankToTheBit) {
  const Variant& cpu = find_variant("attention", "cpu");
  const Scheme& gather = find_scheme("attention", "gather");
  for (const char* axes : {"b=2 t=13 h=4 hk=2 d=3 dv=2 docs=3", "b=1 t=3 h=1 d=2", "b=1 t=1 h=1 d=1", "b=2 t=0 h=2 d=4", "b=1 t=12 h=2 d=4 causal=0"})
    for (DType dtype : {DType::F64, DType::BF16})
      for (int ranks : {1, 2, 3, 5}) {
        SCOPED_TRACE(testing::Message() << axes << " " << to_string(dtype) << " ranks " << ranks);
        Problem whole = attention(axes, dtype);
        const SchemeRun run = run_scheme(gather, cpu, whole, ranks, Phase::Both);
        run_variant(cpu, whole, Phase::Both);
        for (const char* name : kResults) expect_same_bits(run.result[name], whole[name], name);
      }
}

TEST(Gather, BackwardAloneTakesTheForwardOutputsFromTheWholeProblem) {
  const Variant& cpu = find_variant("attention", "cpu");
  Problem whole = attention("b=2 t=11 h=2 d=3 docs=2", DType::F32);
  run_variant(cpu, whole, Phase::Forward);
  const SchemeRun run = run_scheme(find_scheme("attention", "gather"), cpu, whole, 3, Phase::Backward);
  run_variant(cpu, whole, Phase::Backward);
  for (const char* name : kResults) expect_same_bits(run.result[name], whole[name], name);
  EXPECT_EQ(run.ledgers[0].sent("fwd"), 0);
}

TEST(Gather, LedgerEqualsTheFormula) {
  const Variant& cpu = find_variant("attention", "cpu");
  const Scheme& gather = find_scheme("attention", "gather");
  for (int ranks : {1, 2, 3, 4, 5, 8})
    for (DType dtype : {DType::F64, DType::F32, DType::BF16}) {
      const Problem whole = attention("b=2 t=17 h=4 hk=2 d=3 dv=5", dtype);
      const SchemeRun run = run_scheme(gather, cpu, whole, ranks, Phase::Both);
      for (const Ledger& ledger : run.ledgers) {
        EXPECT_EQ(ledger.sent("fwd"), gather.bytes_sent(whole.component(), whole.axes(), dtype, ranks, Phase::Forward));
        EXPECT_EQ(ledger.sent("bwd"), gather.bytes_sent(whole.component(), whole.axes(), dtype, ranks, Phase::Backward));
        EXPECT_EQ(ledger.received(), ledger.sent());
        EXPECT_EQ(ledger.messages("fwd"), ranks > 1 ? 3 : 0);  // q k v
        EXPECT_EQ(ledger.messages("bwd"), ranks > 1 ? 7 : 0);  // q k v o lse do dlse
      }
    }
  // bf16, 4 ranks, 5 rows each: 3·(2·5·(4·3 + 2·3 + 2·5)·2) bytes
  const Problem whole = attention("b=2 t=17 h=4 hk=2 d=3 dv=5", DType::BF16);
  EXPECT_EQ(gather.bytes_sent(whole.component(), whole.axes(), DType::BF16, 4, Phase::Forward), 3 * 2 * 5 * 28 * 2);
}

TEST(RunScheme, UnwrittenResultsAndDisagreeingRanksAreNaN) {
  // A component with one replicated input: y = w·x, dw = Σ dy·x.
  static const Component* const scaled = [] {
    Component c;
    c.name = "scaled_for_test";
    c.axes = {{.name = "t", .fallback = 4}};
    c.fields = {{"x", Role::Input, "t"},         {"w", Role::Input, "2"},          {"y", Role::Output, "t"},
                {"dy", Role::OutputGrad, "t", Kind::Data, "y"}, {"dw", Role::InputGrad, "2", Kind::Data, "w"}};
    c.token_axes = {"t"};
    Registry<Component>::instance().add(c);
    return &find_component("scaled_for_test");
  }();
  Variant block{.component = "scaled_for_test", .name = "cpu", .about = "", .dtypes = {DType::F64}};
  block.forward = block.backward = [](const Call&) {};
  Scheme scheme{.name = "s", .component = "scaled_for_test", .about = ""};
  scheme.layout = [](const Component&, const Axes& axes, int ranks) { return contiguous_layout(axes["t"], ranks); };
  scheme.forward = [](const SchemeCall& call) {
    if (call.communicator.rank() == 0) fill(call.views[2], 7);  // the other rank forgets to write
  };
  scheme.backward = [](const SchemeCall& call) {
    set_value(call.views[4], 0, 5);
    set_value(call.views[4], 1, call.communicator.rank());
  };
  Problem whole(*scaled, scaled->complete(Axes{}), DType::F64);
  whole.fill("normal", 1);
  const SchemeRun run = run_scheme(scheme, block, whole, 2, Phase::Both);
  EXPECT_EQ(value_at(run.result["y"], 1), 7);
  EXPECT_TRUE(std::isnan(value_at(run.result["y"], 2)));
  EXPECT_EQ(value_at(run.result["dw"], 0), 5);
  EXPECT_TRUE(std::isnan(value_at(run.result["dw"], 1)));
}

TEST(RunScheme, RefusalsSayWhichCaseAndWhy) {
  const Problem whole = attention("b=1 t=6 s=4 h=1 d=2", DType::F64);
  try {
    run_scheme(find_scheme("attention", "gather"), find_variant("attention", "cpu"), whole, 2, Phase::Forward);
    FAIL() << "different lengths of queries and keys cannot be one sequence";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_NE(std::string(error.what()).find("*@gather with attention/cpu on 2 ranks: unsupported: s and t differ"), std::string::npos) << error.what();
  }
  EXPECT_THROW(find_scheme("attention", "rings"), Error);
}

TEST(RunScheme, AFailingBlockIsReportedWithItsRank) {
  Variant broken = find_variant("attention", "cpu");
  broken.forward = [run = broken.forward](const Call& call) {
    throw Error(ErrorKind::Environment, format("out of luck with t={}", call.axes["t"]));
  };
  const Problem whole = attention("b=1 t=6 h=1 d=2", DType::F64);
  try {
    run_scheme(find_scheme("attention", "gather"), broken, whole, 3, Phase::Forward);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Environment);
    EXPECT_TRUE(error.message().starts_with("rank ")) << error.what();
    EXPECT_TRUE(error.message().ends_with("out of luck with t=6")) << error.what();
  }
}

}  // namespace
}  // namespace megatoken
