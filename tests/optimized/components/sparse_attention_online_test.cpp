#include <gtest/gtest.h>

#include "harness/check/metrics.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;

const Variant& online() { return find_variant("sparse_attention", "online"); }

/// Both ways of adding up dk and dv.
class SparseOnlineOf : public testing::TestWithParam<const char*> {
 protected:
  const Variant& variant() const { return find_variant("sparse_attention", GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Backward, SparseOnlineOf, testing::Values("online", "online_atomics"), [](const auto& info) { return std::string(info.param); });

TEST_P(SparseOnlineOf, EqualsTheReferenceOnEveryExampleAndDistribution) {
  const Component& component = find_component("sparse_attention");
  auto examples = component.examples;
  examples.push_back(component.judging);
  examples.push_back("b=2 t=150 h=6 hk=2 d=20 dv=9 n=130 direct=1");
  for (const auto& axes : examples)
    for (const char* distribution : {"normal", "aimed", "extreme"})
      for (const auto& [dtype, limit] : {std::pair{DType::F64, 1e-12}, {DType::F32, 1e-3}, {DType::BF16, 1e-2}}) {
        Problem want = filled("sparse_attention", axes, dtype, distribution), got = test::with_inputs_of(want, axes);
        run_variant(find_variant("sparse_attention", "cpu"), want, Phase::Both), run_variant(variant(), got, Phase::Both);
        for (const char* name : {"o", "dq", "dk"}) EXPECT_LE(test::relative_rms(got[name], want[name]), limit) << axes << " " << distribution << " " << to_string(dtype) << " " << name;
        for (int64_t i = 0; i < want["lse"].size(); ++i) {
          const double a = value_at(got["lse"], i), b = value_at(want["lse"], i);
          EXPECT_TRUE(a == b || std::abs(a - b) <= 1e-5 * std::max(1.0, std::abs(b))) << axes << " lse " << i << ": " << a << ", " << b;
        }
      }
}

TEST(SparseOnline, AnyNumberOfThreadsGivesTheSameBits) {
  const std::string axes = "b=2 t=90 h=4 hk=2 d=12 n=70 dv=7 direct=1";
  Problem one = filled("sparse_attention", axes, DType::F32);
  run_variant(online(), one, Phase::Both, 1);
  for (int threads : {2, 5}) {
    Problem again = test::with_inputs_of(one, axes);
    run_variant(online(), again, Phase::Both, threads);
    for (const char* name : {"o", "dq", "dk", "dv"}) EXPECT_EQ(test::relative_rms(again[name], one[name]), 0) << threads << " threads: " << name;
    for (int64_t i = 0; i < one["lse"].size(); ++i) EXPECT_EQ(value_at(again["lse"], i), value_at(one["lse"], i));
  }
}

// The gradients of both variants add up query by query, whatever the order of the ids: on one thread they are the same bits.
TEST(SparseOnline, BlocksOfKeysKeepTheOrderOfQueries) {
  const std::string axes = "b=2 t=700 h=6 hk=2 d=20 dv=9 n=41 direct=1";
  Problem blocks = filled("sparse_attention", axes, DType::F32), atomics = test::with_inputs_of(blocks, axes);
  for (const Problem* p : {&blocks, &atomics})
    for (int64_t row = 0; row < 1400; row += 2) std::reverse((*p)["id"].as<int32_t>() + row * 41, (*p)["id"].as<int32_t>() + (row + 1) * 41);
  run_variant(online(), blocks, Phase::Both, 2), run_variant(find_variant("sparse_attention", "online_atomics"), atomics, Phase::Both, 1);
  for (const char* name : {"o", "lse", "dk", "dv"}) EXPECT_TRUE(same_bits(blocks[name], atomics[name])) << name;
}

// tilelang#2651: a key that occurs often in one tile counts each time, once each time.
TEST_P(SparseOnlineOf, RepeatedKeysCountEachTime) {
  const std::string axes = "t=9 s=300 h=4 d=5 n=130";
  Problem want = filled("sparse_attention", axes), got = test::with_inputs_of(want, axes);
  for (const Problem* p : {&want, &got})
    for (int64_t j = 0; j < 9 * 130; ++j) (*p)["id"].as<int32_t>()[j] = j % 3 == 2 ? static_cast<int32_t>(j * 7 % 300) : 291 - 3 * static_cast<int32_t>(j % 2);
  run_variant(find_variant("sparse_attention", "cpu"), want, Phase::Both), run_variant(variant(), got, Phase::Both, 2);
  EXPECT_LE(test::worst_difference(got, want), 1e-13);
}

TEST_P(SparseOnlineOf, RefusesIdsThatAreNoKeyToken) {
  for (int32_t wrong : {12, -2}) {
    Problem p = filled("sparse_attention", "t=12 h=2 d=2 n=3");
    p["id"].as<int32_t>()[20] = wrong;
    EXPECT_THROW(run_variant(variant(), p, Phase::Forward, 2), Error) << wrong;
  }
}

TEST_P(SparseOnlineOf, ChunksOfQueriesAddUp) {  // more slots than a chunk of online keeps: 40 queries of 262144 slots come in chunks of 16
  const std::string axes = "t=40 s=50 h=2 d=3 n=262144";
  Problem want = filled("sparse_attention", axes), got = test::with_inputs_of(want, axes);
  const auto all = [](const Problem& p) {
    fill(p["id"], -1);
    for (int64_t i = 0; i < 40; ++i)
      for (int64_t j = 0; j <= i; ++j) p["id"].as<int32_t>()[i * 262144 + 5000 * j] = static_cast<int32_t>(j);
  };
  all(want), all(got);
  run_variant(find_variant("sparse_attention", "cpu"), want, Phase::Both, 2), run_variant(variant(), got, Phase::Both, 2);
  EXPECT_LE(test::worst_difference(got, want), 1e-12);
}

}  // namespace
}  // namespace megatoken
