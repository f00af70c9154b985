#include <gtest/gtest.h>

#include <set>

#include "reference/components/pool_keys/pools.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::relative_rms;

const Variant& cpu() { return find_variant("pool_keys", "cpu"); }

TEST(PoolKeys, EqualGatesGiveTheMeanOfTheNormalisedKeys) {
  Problem p = filled("pool_keys", "t=8 d=3");
  fill(p["gate"], 2), fill(p["ape"], -1), fill(p["weight"], 1), fill(p["bias"], 0.5);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (int64_t c = 0; c < 3; ++c) sum += value_at(p["y"], row * 3 + c);
    EXPECT_NEAR(sum, 1.5, 1e-12) << "rows of a LayerNorm have mean 0 before the bias";
  }
}

TEST(PoolKeys, AWideOpenGateChoosesItsToken) {
  Problem p = filled("pool_keys", "t=4 d=5"), one = filled("pool_keys", "t=4 d=5 pool=1");
  fill(p["ape"], 0), fill(one["ape"], 0);
  for (const char* name : {"k", "weight", "bias"}) copy(p[name], one[name]);
  for (int64_t c = 0; c < 5; ++c) set_value(p["gate"], 2 * 5 + c, 1000);
  run_variant(cpu(), p, Phase::Forward), run_variant(cpu(), one, Phase::Forward);
  EXPECT_LE(relative_rms(p["y"], one["y"].slice(1, 2, 3)), 1e-15);
}

TEST(PoolKeys, PackedDocumentsGiveWhatEachGivesAlone) {
  for (const auto& [before, length] : {std::pair{3, 9}, {4, 8}, {5, 3}, {6, 14}}) {
    Problem packed = filled("pool_keys", "t=27 d=4"), alone = filled("pool_keys", format("t={} d=4", length));
    for (int64_t i = 0; i < 27; ++i) packed["document"].as<int32_t>()[i] = i < before ? 0 : i < before + length ? 1 : 2;
    for (const char* name : {"ape", "weight", "bias"}) copy(packed[name], alone[name]);
    for (const char* name : {"k", "gate"}) copy(packed[name].slice(1, before, before + length), alone[name]);
    for (const Problem* p : {&packed, &alone}) run_variant(cpu(), *p, Phase::Forward);
    const int64_t row = before / 4, rows = length / 4;
    EXPECT_EQ(relative_rms(clone(packed["y"].slice(1, row, row + rows)), alone["y"]), 0) << before << " " << length;
  }
}

TEST(PoolKeys, EveryCompletePoolHasARowOfItsOwn) {
  const Component& component = find_component("pool_keys");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Problem p(component, component.complete(Axes::parse("t=61 d=1 docs=9")), DType::F64);
    p.fill("normal", seed);
    const auto document = p["document"].elements<const int32_t, 2>();
    std::set<int64_t> of_rows, of_tokens;
    for (int64_t row = 0; row < 15; ++row)
      if (const int64_t first = pool_keys::pool_of_row(document, 0, row, 61, 4); first >= 0) of_rows.insert(first);
    for (int64_t i = 0, start = 0; i < 61; ++i) {
      if (i > 0 && document(0, i) != document(0, i - 1)) start = i;
      EXPECT_EQ(pool_keys::document_start(document, 0, i), start);
      if ((i - start) % 4 == 3) of_tokens.insert(i - 3);
    }
    EXPECT_EQ(of_rows, of_tokens) << "seed " << seed;
  }
}

TEST(PoolKeys, TokensOfIncompletePoolsAndPaddingGetNoGradient) {
  Problem p = filled("pool_keys", "t=11 d=3");
  for (int64_t i = 8; i < 11; ++i) EXPECT_EQ(p["document"].as<int32_t>()[i], 0);
  for (int64_t i = 0; i < 4; ++i) p["document"].as<int32_t>()[i] = -1;
  run_variant(cpu(), p, Phase::Both);
  for (const char* name : {"dk", "dgate"})
    for (int64_t i = 0; i < 11; ++i)
      for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(value_at(p[name], i * 3 + c) != 0, i >= 4 && i < 8) << name << " " << i;
  for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(value_at(p["y"], c), 0);
}

TEST(PoolKeys, GateGradientsOfAPoolSumToZero) {
  Problem p = filled("pool_keys", "t=12 d=4");
  run_variant(cpu(), p, Phase::Both);
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t c = 0; c < 4; ++c) {
      double sum = 0;
      for (int64_t s = 0; s < 4; ++s) sum += value_at(p["dgate"], (row * 4 + s) * 4 + c);
      EXPECT_NEAR(sum, 0, 1e-14);
    }
}

TEST(PoolKeys, RoundingOfProbabilitiesIsAnOptionThatShowsInBf16Only) {
  for (DType dtype : {DType::F64, DType::BF16}) {
    Problem once = filled("pool_keys", "t=64 d=16", dtype), twice = test::with_inputs_of(once, "t=64 d=16 rounding=1");
    run_variant(cpu(), once, Phase::Forward), run_variant(cpu(), twice, Phase::Forward);
    const double difference = relative_rms(twice["y"], once["y"]);
    if (dtype == DType::F64) EXPECT_EQ(difference, 0);
    else EXPECT_TRUE(difference > 1e-4 && difference < 1e-2) << difference;
  }
}

}  // namespace
}  // namespace megatoken
