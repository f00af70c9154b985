// Problems: the same seed gives the same bits, whole or in parts, in any dtype, on any number of threads.
#include "reference/core/problem.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "reference/core/random.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;

bool given(const Field& field) { return field.role == Role::Input || field.role == Role::OutputGrad; }

bool same_bits(const TensorView& a, const TensorView& b) { return a.shape == b.shape && a.dtype == b.dtype && std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0; }

TEST(Fill, GivesTheSameBitsAgainForEveryComponentAndDistribution) {
  for (const Component* component : Registry<Component>::instance().all())
    for (const auto& distribution : component->distributions) {
      const std::string axes = component->examples.at(component->examples.size() / 2);
      const Problem a = filled(component->name, axes, DType::BF16, distribution, 5), b = filled(component->name, axes, DType::BF16, distribution, 5);
      const Problem c = filled(component->name, axes, DType::BF16, distribution, 6);
      bool differs = false, some = false;
      for (const auto& field : component->fields) {
        if (!given(field) || !a[field.name]) continue;
        ASSERT_TRUE(same_bits(a[field.name], b[field.name])) << component->name << " " << distribution << ": " << field.name;
        some |= field.kind != Kind::Index && a[field.name].size() > 0;
        differs |= !same_bits(a[field.name], c[field.name]);
      }
      EXPECT_TRUE(differs || !some) << component->name << " " << distribution << ": another seed gave the same inputs";
    }
}

TEST(Fill, AnyShardAloneHasTheBitsOfTheWhole) {
  const Problem whole = filled("attention", "t=96 h=3 d=8", DType::F32, "normal", 9);
  const TensorView& q = whole["q"];
  const RandomStream stream(9, "attention.q");
  const int64_t row = 3 * 8;
  for (int64_t rank : {3, 0, 2, 1})  // in any order, each rank on its own
    for (int64_t i = rank * 24 * row; i < (rank + 1) * 24 * row; ++i) ASSERT_EQ(q.as<float>()[i], static_cast<float>(stream.normal(i)));
  const Problem shorter = filled("attention", "t=40 h=3 d=8", DType::F32, "normal", 9);
  EXPECT_TRUE(same_bits(shorter["q"], q.slice(1, 0, 40))) << "a prefix is a prefix";
}

TEST(Fill, ThreadsDoNotShowInLargeTensors) {
  const Tensor x(DType::F32, {3, 70000});
  fill_normal(x, 2, "large", 0.5, 1);
  const RandomStream stream(2, "large");
  for (int64_t i = 0; i < x->size(); i += 97) ASSERT_EQ(x.as<float>()[i], static_cast<float>(1 + 0.5 * stream.normal(i)));
  ASSERT_EQ(x.as<float>()[209999], static_cast<float>(1 + 0.5 * stream.normal(209999)));
}

TEST(Fill, FollowsStrides) {
  const Tensor x(DType::F64, {4, 10}), whole(DType::F64, {4, 5});
  fill_normal(x->slice(1, 2, 7), 3, "part");
  fill_normal(whole, 3, "part");
  EXPECT_EQ(test::relative_rms(clone(x->slice(1, 2, 7)), whole), 0);
}

TEST(Fill, NarrowDTypesAreTheWideOneRoundedOnce) {
  const Problem wide = filled("attention", "t=33 h=2 d=5", DType::F64);
  for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    const Problem narrow = filled("attention", "t=33 h=2 d=5", dtype);
    for (const char* field : {"q", "k", "v", "do"}) EXPECT_TRUE(same_bits(narrow[field], convert(wide[field], dtype))) << to_string(dtype) << " " << field;
  }
}

TEST(Fill, TensorsOfOneProblemAreDifferent) {
  const Problem p = filled("attention", "t=16 h=2 d=8");
  EXPECT_FALSE(same_bits(p["q"], p["k"]));
  EXPECT_FALSE(same_bits(p["k"], p["v"]));
  EXPECT_FALSE(same_bits(p["o"], p["do"]));
}

TEST(Fill, EqualTokensGetEqualRows) {
  const Component& c = find_component("attention");
  Problem p(c, c.complete(Axes::parse("t=6 h=1 d=4")), DType::F32);
  uint64_t asked = 0;
  p.fill("tokens", 1, [&](int64_t count, uint64_t seed) {
    asked = seed;
    const std::vector<int32_t> text{7, 3, 7, 7, 9, 3};
    EXPECT_EQ(count, 6);
    return text;
  });
  EXPECT_EQ(asked, 1u);
  const float* k = p["k"].as<float>();
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(k[i], k[2 * 4 + i]);
    EXPECT_EQ(k[4 + i], k[5 * 4 + i]);
  }
  EXPECT_NE(k[0], k[4]);
  EXPECT_NE(k[0], k[16]);
}

TEST(SyntheticTokens, FavourLowIdsAndStayInTheVocabulary) {
  const auto tokens = synthetic_tokens(20000, 1, 256);
  int64_t low = 0;
  for (int32_t token : tokens) {
    ASSERT_GE(token, 0);
    ASSERT_LT(token, 256);
    low += token < 16;
  }
  EXPECT_NEAR(static_cast<double>(low) / 20000, std::log(17.0) / std::log(256.0), 0.02) << "the density is 1/(1 + id)";
}

TEST(Problem, ConvertsInputsAndOnRequestOutputs) {
  Problem p = filled("attention", "t=5 h=1 d=2", DType::F32);
  fill(p["o"], 3), fill(p["dq"], 4);
  const Problem with = p.converted(DType::F64, true), without = p.converted(DType::F64);
  EXPECT_EQ(value_at(with["o"], 0), 3);
  EXPECT_EQ(value_at(with["dq"], 0), 4);
  EXPECT_EQ(test::relative_rms(without["q"], p["q"]), 0);
  EXPECT_EQ(without["q_document"].dtype, DType::I32);
  EXPECT_EQ(without["lse"].dtype, DType::F64);
}

TEST(Problem, ReplacedTensorsStayAlive) {
  Problem p = filled("attention", "t=5 h=1 d=2", DType::F32);
  {
    Tensor q = Tensor::zeros(DType::F32, {1, 5, 1, 2});
    p.replace("q", q);
  }
  EXPECT_EQ(value_at(p["q"], 9), 0);
  EXPECT_EQ(test::message_of([&] { p.replace("qq", Tensor()); }).rfind("unknown tensor of attention 'qq'", 0), 0u);
}

TEST(RunVariant, RunsThePhasesAskedFor) {
  const Component& c = find_component("attention");
  std::string calls;
  Variant variant;
  variant.component = "attention";
  variant.workspace = [](const Axes&, DType, Phase) { return int64_t{100}; };
  variant.forward = [&](const Call& call) {
    calls += "f";
    EXPECT_EQ(call.context.workspace.size(), 100u);
    EXPECT_EQ(call.context.threads, 3);
  };
  variant.backward = [&](const Call&) { calls += "b"; };
  const Problem p(c, c.complete(Axes::parse("t=1 h=1 d=1")), DType::F32);
  run_variant(variant, p, Phase::Forward, 3);
  run_variant(variant, p, Phase::Both, 3);
  run_variant(variant, p, Phase::Backward, 3);
  EXPECT_EQ(calls, "ffbb");
}

}  // namespace
}  // namespace megatoken
