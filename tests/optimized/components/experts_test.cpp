#include <gtest/gtest.h>

#include "harness/check/metrics.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;

const Variant& grouped() { return find_variant("experts", "grouped"); }

// Several tiles of one expert, several strips of columns, blocks of inner features with a rest; experts without tokens.
TEST(GroupedExperts, AgreesWithTheOracleAcrossTilesStripsAndBlocks) {
  for (const char* axes : {"t=1 c=1 e=1 k=1 f=1", "t=0 c=3 e=2 k=1 f=2", "b=2 t=90 c=5 e=3 k=2 f=70", "t=140 c=131 e=2 k=2 f=3 shared=0", "b=3 t=5 c=4 e=9 k=4 f=2 limit=0.5"})
    for (const char* distribution : {"normal", "aimed", "extreme"}) {
      Problem got = filled("experts", axes, DType::F64, distribution), want = filled("experts", axes, DType::F64, distribution);
      run_variant(grouped(), got, Phase::Both, 2);
      run_variant(find_variant("experts", "cpu"), want, Phase::Both);
      EXPECT_LE(test::worst_difference(got, want), 1e-12) << axes << " " << distribution;
    }
}

TEST(GroupedExperts, GivesTheSameBitsOnAnyNumberOfThreads) {
  const char* axes = "b=2 t=150 c=140 e=5 k=3 f=20";
  Problem one = filled("experts", axes, DType::F32);
  run_variant(grouped(), one, Phase::Both, 1);
  for (int threads : {2, 3, 7}) {
    Problem many = filled("experts", axes, DType::F32);
    run_variant(grouped(), many, Phase::Both, threads);
    for (const auto& field : one.component().fields)
      if (test::is_result(field)) {
        EXPECT_TRUE(same_bits(many[field.name], one[field.name])) << field.name << " on " << threads << " threads";
      }
  }
}

// All slots empty: nothing to sort, and still every result is written.
TEST(GroupedExperts, WithoutAnyUseAllResultsAreZero) {
  Problem p = filled("experts", "t=4 c=3 e=2 k=2 f=2 shared=0");
  fill(p["id"], -1);
  run_variant(grouped(), p, Phase::Both);
  for (const char* name : {"y", "dx", "dweight", "dgate_up", "ddown"})
    for (int64_t i = 0; i < p[name].size(); ++i) EXPECT_EQ(value_at(p[name], i), 0) << name;
}

}  // namespace
}  // namespace megatoken
