#include <gtest/gtest.h>

#include "harness/check/metrics.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;

const Variant& fused() { return find_variant("hyper_connection", "fused"); }

// Tiles that are full, short and missing; more groups than tiles; every number of streams; both ends of the model; streams of whole vectors,
// which are used where they lie.
TEST(FusedHyperConnection, AgreesWithTheOracleAtEveryBorder) {
  for (const char* axes : {"t=1 n=1 c=1 k=3", "t=0 n=4 c=2", "t=3 n=4 c=2 entry=1 exit=1", "t=17 n=2 c=5 k=8 rounds=1", "b=2 t=21 n=3 c=33 k=15 hc_eps=0.1 exit=1", "t=300 n=4 c=9 exit=1", "b=2 t=21 n=4 c=32 exit=1",
                           "b=2 t=19 n=3 c=16 k=15", "t=19 n=4 c=600", "t=18 n=4 c=16 entry=1 exit=1"})
    for (const char* distribution : {"normal", "extreme"}) {
      Problem got = filled("hyper_connection", axes, DType::F64, distribution), want = filled("hyper_connection", axes, DType::F64, distribution);
      run_variant(fused(), got, Phase::Both, 2);
      run_variant(find_variant("hyper_connection", "cpu"), want, Phase::Both);
      EXPECT_LE(test::worst_difference(got, want), 1e-11) << axes << " " << distribution;
    }
}

TEST(FusedHyperConnection, GivesTheSameBitsOnAnyNumberOfThreads) {
  const char* axes = "b=2 t=150 c=20 exit=1";
  Problem one = filled("hyper_connection", axes, DType::F32);
  run_variant(fused(), one, Phase::Both, 1);
  for (int threads : {2, 3, 7}) {
    Problem many = filled("hyper_connection", axes, DType::F32);
    run_variant(fused(), many, Phase::Both, threads);
    for (const char* name : {"y", "x_out", "pooled", "dx", "du", "dfn", "dbase", "dscale"}) EXPECT_TRUE(same_bits(many[name], one[name])) << name << " on " << threads << " threads";
  }
}

TEST(FusedHyperConnection, NeedsNoMoreMemoryForMoreTokens) {
  const Component& component = find_component("hyper_connection");
  const auto workspace = [&](const char* axes) { return fused().workspace(component.complete(Axes::parse(axes)), DType::BF16, Phase::Both); };
  EXPECT_EQ(workspace("t=1Mi c=4096"), workspace("t=1Ki c=4096"));
}

}  // namespace
}  // namespace megatoken
