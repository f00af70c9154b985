#include <gtest/gtest.h>

#include "harness/check/metrics.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;

const Variant& tiled() { return find_variant("linear_cross_entropy", "tiled"); }

int64_t workspace(const std::string& axes) {
  const Component& component = find_component("linear_cross_entropy");
  return tiled().workspace(component.complete(Axes::parse(axes)), DType::BF16, Phase::Both);
}

TEST(TiledLinearCrossEntropy, NeedsNoMoreMemoryForMoreTokens) {
  EXPECT_EQ(workspace("t=1Mi c=4096 v=151936"), workspace("t=1Ki c=4096 v=151936"));
  EXPECT_EQ(workspace("t=1Mi c=64 v=256"), workspace("t=512 c=64 v=256"));
  EXPECT_LT(workspace("t=1Mi c=64 v=256"), (int64_t{1} << 20) * 256);  // bytes: a quarter of the logits in fp32
}

// Several tiles of tokens, several chunks of words, odd remainders everywhere.
TEST(TiledLinearCrossEntropy, AgreesWithTheOracleAcrossTilesAndChunks) {
  for (const char* axes : {"t=1 c=1 v=1", "t=0 c=3 v=5 bias=1", "b=2 t=300 c=7 v=530 bias=1", "t=257 c=300 v=33", "b=3 t=17 c=5 v=2"})
    for (const char* distribution : {"normal", "extreme"}) {
      Problem got = filled("linear_cross_entropy", axes, DType::F64, distribution), want = filled("linear_cross_entropy", axes, DType::F64, distribution);
      run_variant(tiled(), got, Phase::Both, 2);
      run_variant(find_variant("linear_cross_entropy", "cpu"), want, Phase::Both);
      EXPECT_LE(test::worst_difference(got, want), 1e-12) << axes << " " << distribution;
    }
}

TEST(TiledLinearCrossEntropy, GivesTheSameBitsOnAnyNumberOfThreads) {
  const char* axes = "b=2 t=150 c=20 v=700 bias=1";
  Problem one = filled("linear_cross_entropy", axes, DType::F32);
  run_variant(tiled(), one, Phase::Both, 1);
  for (int threads : {2, 3, 7}) {
    Problem many = filled("linear_cross_entropy", axes, DType::F32);
    run_variant(tiled(), many, Phase::Both, threads);
    for (const char* name : {"loss", "logprob", "dx", "dw", "dbias"}) EXPECT_TRUE(same_bits(many[name], one[name])) << name << " on " << threads << " threads";
  }
}

// parallel.md F10: an implementation that had formed its gradients before it knew the upstream one scaled dx alone.
TEST(TiledLinearCrossEntropy, EveryGradientFollowsTheUpstreamGradientAlsoWhenRunTwice) {
  const char* axes = "t=70 c=5 v=40 bias=1";
  Problem one = filled("linear_cross_entropy", axes);
  fill(one["dlogprob"], 0), fill(one["dloss"], 1);
  run_variant(tiled(), one, Phase::Both);
  for (double upstream : {0.5, -1.0, 0.0}) {
    Problem p = test::with_inputs_of(one, axes);
    fill(p["dloss"], upstream);
    run_variant(tiled(), p, Phase::Both);
    run_variant(tiled(), p, Phase::Backward);
    for (const char* name : {"dx", "dw", "dbias"})
      for (int64_t i = 0; i < p[name].size(); ++i) ASSERT_NEAR(value_at(p[name], i), upstream * value_at(one[name], i), 1e-13) << name;
  }
}

}  // namespace
}  // namespace megatoken
