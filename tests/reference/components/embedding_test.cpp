#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::message_of;

const Variant& cpu() { return find_variant("embedding", "cpu"); }

TEST(Embedding, CopiesTheRowOfEveryId) {
  Problem p = filled("embedding", "b=2 t=9 c=3 v=5", DType::BF16);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t i = 0; i < 18 * 3; ++i) EXPECT_EQ(value_at(p["y"], i), value_at(p["table"], static_cast<int64_t>(value_at(p["id"], i / 3)) * 3 + i % 3));
}

TEST(Embedding, GradientAddsEveryUseAndIsZeroForUnusedRows) {
  Problem p = filled("embedding", "b=1 t=7 c=2 v=4");
  const int ids[] = {2, 0, 2, 2, 0, 2, 2};
  for (int64_t i = 0; i < 7; ++i) set_value(p["id"], i, ids[i]);
  fill(p["dy"], 1);
  run_variant(cpu(), p, Phase::Both);
  const double uses[] = {2, 0, 5, 0};
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(value_at(p["dtable"], i), uses[i / 2]);
}

TEST(Embedding, RefusesIdsOutsideTheTableWithTheirPlace) {
  for (int bad : {-1, 4}) {
    Problem p = filled("embedding", "b=2 t=3 c=2 v=4");
    set_value(p["id"], 4, bad);
    EXPECT_EQ(message_of([&] { run_variant(cpu(), p, Phase::Forward); }), "embedding: id at b=1,t=1 is " + std::to_string(bad) + ", expected 0 to 3 (v=4)");
  }
}

}  // namespace
}  // namespace megatoken
