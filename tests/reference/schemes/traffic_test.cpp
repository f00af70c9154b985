// Byte formulas against golden numbers that were derived by hand, and against each other.
#include "reference/schemes/traffic.hpp"

#include <gtest/gtest.h>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

constexpr AttentionTraffic kAnchor{1, 131072 / 8, 24, 4, 256, 2, 4};   // 131,072 tokens over 8 ranks
constexpr AttentionTraffic kLlama{1, 131072 / 8, 32, 8, 128, 2, 4};    // the same with the heads of an 8B dense model

AttentionTraffic with_gradient_bytes(AttentionTraffic a, int64_t bytes) {
  a.gradient_bytes = bytes;
  return a;
}

TEST(Traffic, RingOfTheAnchorMatchesTheGoldenBytes) {
  EXPECT_EQ(kv_block_bytes(kAnchor), 67108864);
  EXPECT_EQ(ring_forward_bytes(kAnchor, 8), 469762048);
  EXPECT_EQ(ring_backward_bytes(kAnchor, 8, RingBackward::SameDirection), 1543503872);
  EXPECT_EQ(ring_backward_bytes(with_gradient_bytes(kAnchor, 2), 8), 939524096);
  EXPECT_EQ(ring_backward_bytes(kAnchor, 8), 1409286144);
}

struct TinyRing {
  AttentionTraffic a;
  int64_t tokens, ranks, forward, same_direction_fp32, reverse_narrow;
};

TEST(Traffic, TinyRingsMatchTheGoldenBytes) {
  const TinyRing rows[] = {
      {{2, 0, 4, 2, 8, 2, 4}, 64, 4, 6144, 22528, 12288},
      {{2, 0, 4, 2, 8, 2, 4}, 64, 2, 4096, 20480, 8192},
      {{1, 0, 6, 2, 16, 4, 4}, 96, 2, 12288, 36864, 24576},
      {{1, 0, 6, 2, 16, 4, 4}, 96, 6, 20480, 45056, 40960},
      {{1, 0, 12, 3, 16, 4, 4}, 96, 3, 24576, 61440, 49152},
  };
  for (TinyRing row : rows) {
    SCOPED_TRACE(row.ranks);
    row.a.n = row.tokens / row.ranks;
    EXPECT_EQ(ring_forward_bytes(row.a, row.ranks), row.forward);
    EXPECT_EQ(ring_backward_bytes(row.a, row.ranks, RingBackward::SameDirection), row.same_direction_fp32);
    EXPECT_EQ(ring_backward_bytes(with_gradient_bytes(row.a, row.a.element_bytes), row.ranks), row.reverse_narrow);
  }
  const AttentionTraffic first{2, 16, 4, 2, 8, 2, 4};
  EXPECT_EQ(ring_backward_bytes(first, 4), 18432);
}

TEST(Traffic, AllGatheredKeysCostTheRingForwardAndOneReduceScatter) {
  EXPECT_EQ(all_gather_kv_bytes(kAnchor, 8), (DirectionBytes{469762048, 1409286144}));
  EXPECT_EQ(all_gather_kv_bytes(with_gradient_bytes(kAnchor, 2), 8).backward, 939524096);
}

TEST(Traffic, UlyssesMatchesTheGoldenBytesWithAndWithoutReplicatedHeads) {
  EXPECT_EQ(ulysses_bytes(kAnchor, 8, false).forward, 411041792);
  EXPECT_EQ(ulysses_bytes(kAnchor, 8).forward, 469762048);
  EXPECT_EQ(ulysses_bytes(kLlama, 8), (DirectionBytes{293601280, 293601280}));
  EXPECT_EQ(ulysses_bytes({2, 32, 4, 2, 8, 2, 4}, 2).forward, 6144);
  EXPECT_EQ(ulysses_bytes({2, 16, 4, 2, 8, 2, 4}, 4).forward, 6144);
  EXPECT_EQ(ulysses_bytes({1, 32, 12, 3, 16, 4, 4}, 3).forward, 40960);
  EXPECT_EQ(ulysses_bytes({1, 16, 6, 2, 16, 4, 4}, 6).forward, 20480);
}

TEST(Traffic, UlyssesRefusesHeadsThatNeitherDivideNorAreDivided) {
  EXPECT_EQ(ulysses_kv_heads(4, 2), 4);
  EXPECT_EQ(ulysses_kv_heads(4, 8), 8);
  EXPECT_EQ(ulysses_kv_heads(4, 6), 0);
  EXPECT_THROW(ulysses_bytes(kAnchor, 6), Error);
}

struct UspRow {
  AttentionTraffic a;
  int64_t ranks, ulysses, total;
};

TEST(Traffic, UspMatchesTheGoldenTable) {
  const UspRow rows[] = {
      {kAnchor, 8, 1, 469762048},  {kAnchor, 8, 2, 436207616},  {kAnchor, 8, 4, 419430400},  {kAnchor, 8, 8, 469762048},
      {kAnchor, 16, 1, 503316480}, {kAnchor, 16, 2, 352321536}, {kAnchor, 16, 4, 276824064}, {kAnchor, 16, 8, 301989888},
      {kLlama, 8, 1, 469762048},   {kLlama, 8, 2, 369098752},   {kLlama, 8, 4, 318767104},   {kLlama, 8, 8, 293601280},
      {kLlama, 32, 1, 520093696},  {kLlama, 32, 2, 293601280},  {kLlama, 32, 4, 180355072},  {kLlama, 32, 8, 123731968},
      {kLlama, 32, 16, 127926272}, {kLlama, 32, 32, 130023424},
  };
  for (UspRow row : rows) {
    SCOPED_TRACE(testing::Message() << row.ulysses << " of " << row.ranks);
    row.a.n = 131072 / row.ranks;
    EXPECT_EQ(usp_bytes(row.a, row.ulysses, row.ranks / row.ulysses).total().forward, row.total);
  }
  EXPECT_EQ(usp_bytes(kAnchor, 2, 4).all_to_all.forward, 234881024);
  EXPECT_EQ(usp_bytes(kAnchor, 2, 4).ring.forward, 201326592);
}

TEST(Traffic, UspWithOneSideOfOneIsThePureForm) {
  for (int64_t ranks : {1, 2, 4, 8, 16})
    for (RingBackward schedule : {RingBackward::SameDirection, RingBackward::ReverseDirection}) {
      const AttentionTraffic a{2, 128, 32, 4, 64, 2, 4};
      EXPECT_EQ(usp_bytes(a, 1, ranks, schedule).total(), ring_bytes(a, ranks, schedule)) << ranks;
      EXPECT_EQ(usp_bytes(a, ranks, 1, schedule).total(), ulysses_bytes(a, ranks)) << ranks;
    }
}

TEST(Traffic, RingAndUlyssesMeetAtOnePlusTheGroupSize) {
  EXPECT_DOUBLE_EQ(ulysses_ring_crossover(24, 4), 7);
  EXPECT_DOUBLE_EQ(ulysses_ring_crossover_replicated(24, 4), 8);
  const AttentionTraffic a{1, 7 * 64, 28, 4, 32, 2, 2};  // group of 7, so 8 ranks; divisible, so every byte is whole
  EXPECT_EQ(ulysses_bytes(a, 8, false).forward, ring_forward_bytes(a, 8));
  EXPECT_GT(ulysses_bytes(a, 4, false).forward, ring_forward_bytes(a, 4));
  EXPECT_LT(ulysses_bytes(a, 14, false).forward, ring_forward_bytes(a, 14));
}

TEST(Traffic, OneRankSendsNothing) {
  EXPECT_EQ(ring_bytes(kAnchor, 1, RingBackward::SameDirection).total(), 0);
  EXPECT_EQ(all_gather_kv_bytes(kAnchor, 1).total(), 0);
  EXPECT_EQ(ulysses_bytes(kAnchor, 1).total(), 0);
  EXPECT_EQ(all_reduce_bytes(1000, 1), 0);
  EXPECT_EQ(expert_dispatch_bytes(4096, 8, 1, 7168, 2), 0);
  EXPECT_THROW(all_reduce_bytes(1000, 0), Error);
}

TEST(Traffic, CollectivesCountTheRingOptimalShare) {
  EXPECT_EQ(all_reduce_bytes(55562855904, 8), 97234997832);
  EXPECT_EQ(all_reduce_bytes(55562855904, 64), 109389372561);
  EXPECT_EQ(all_gather_bytes(800, 8), 700);
  EXPECT_EQ(reduce_scatter_bytes(800, 8), 700);
  EXPECT_EQ(all_to_all_bytes(801, 8), 700);  // a share that is not whole is rounded down
}

TEST(Traffic, TensorParallelUnitsMatchTheGoldenBytes) {
  const int64_t unit = tensor_parallel_unit_bytes(1, 4096, 5120, 2, 8);
  EXPECT_EQ(unit, 36700160);
  EXPECT_EQ(64 * tensor_parallel_layer_bytes(unit, TensorParallel::AllReduce).total(), 18790481920);
  EXPECT_EQ(64 * tensor_parallel_layer_bytes(unit, TensorParallel::Nominal).total(), 18790481920);
  EXPECT_EQ(64 * tensor_parallel_layer_bytes(unit, TensorParallel::Regather).total(), 23488102400);
}

TEST(Traffic, ExpertDispatchMatchesTheGoldenBytesAndReach) {
  EXPECT_EQ(expert_dispatch_bytes(4096, 8, 64, 7168, 2), 462422016);
  EXPECT_EQ(expert_rows_bytes(4096 * 8 / 64 * 63, 7168, 2), 462422016);
  EXPECT_NEAR(expected_distinct_groups(256, 8, 64), 7.676, 5e-4);
  EXPECT_NEAR(expected_distinct_groups(256, 8, 8), 5.29, 5e-3);
  EXPECT_DOUBLE_EQ(expected_distinct_groups(8, 8, 8), 8);
  EXPECT_THROW(expected_distinct_groups(256, 8, 7), Error);
}

TEST(Traffic, StateHandOverDoesNotDependOnTokens) {
  const int64_t state = state_block_bytes(48, 128, 128, 4, false), both = state_block_bytes(48, 128, 128, 4, true);
  EXPECT_EQ(state / 4, 786432);
  EXPECT_EQ(both, 6291456);
  EXPECT_EQ(state_gather_bytes(both, 8), 44040192);
  EXPECT_EQ(convolution_halo_bytes(4, 24576, 2), 3 * 24576 * 2);
}

}  // namespace
}  // namespace megatoken
