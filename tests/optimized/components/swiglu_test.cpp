#include <gtest/gtest.h>

#include "harness/check/metrics.hpp"
#include "optimized/components/swiglu/tiled.hpp"
#include "optimized/cpu/pieces.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

// parallel.md §3.2: cutting by a rounded-up step gives 3 of 4 pieces for 5 tokens and 5 of 8 for 9.
TEST(Pieces, AreExactlyAsManyAsAskedForAndDifferByAtMostOne) {
  for (int64_t n = 0; n < 40; ++n)
    for (int64_t k = 1; k < 45; ++k) {
      int64_t next = 0;
      for (int64_t i = 0; i < k; ++i) {
        const auto [begin, end] = cpu::piece(n, k, i);
        EXPECT_EQ(begin, next);
        EXPECT_TRUE(end - begin == n / k || end - begin == (n + k - 1) / k) << n << " in " << k;
        next = end;
      }
      EXPECT_EQ(next, n);
    }
}

// parallel.md F3: DeepSpeed #8262, #7998.
TEST(TiledSwiglu, AnyNumberOfPiecesGivesTheBitsOfOne) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    const auto run = [&](int64_t pieces, int threads) {
      Problem p = test::filled("swiglu", "b=2 t=9 c=301", dtype);
      const auto tensors = bind_fields<swiglu::Tensors>(p.views());
      Context context{.threads = threads};
      swiglu::tiled_forward(swiglu::Shape(p.axes()), tensors, pieces, context);
      swiglu::tiled_backward(swiglu::Shape(p.axes()), tensors, pieces, context);
      return p;
    };
    const Problem one = run(1, 1);
    Problem plain = test::filled("swiglu", "b=2 t=9 c=301", dtype);
    run_variant(find_variant("swiglu", "tiled"), plain, Phase::Both, 2);
    for (const char* name : {"y", "dgate", "dup"}) {
      EXPECT_TRUE(same_bits(plain[name], one[name])) << name;
      for (int64_t pieces : {2, 3, 5, 7, 8, 18, 40, 64}) EXPECT_TRUE(same_bits(run(pieces, 3)[name], one[name])) << name << " in " << pieces << " pieces";
    }
  }
}

TEST(TiledSwiglu, AgreesWithTheOracleAtFp64) {
  for (const char* axes : {"t=1 c=1", "t=0 c=7", "b=2 t=3 c=259 limit=0", "t=5 c=16 limit=0.5"}) {
    Problem got = test::filled("swiglu", axes, DType::F64, "extreme"), want = test::filled("swiglu", axes, DType::F64, "extreme");
    run_variant(find_variant("swiglu", "tiled"), got, Phase::Both, 2);
    run_variant(find_variant("swiglu", "cpu"), want, Phase::Both);
    EXPECT_LE(test::worst_difference(got, want), 1e-14) << axes;
  }
}

}  // namespace
}  // namespace megatoken
