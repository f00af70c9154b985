#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::message_of;
using test::relative_rms;

const Variant& cpu() { return find_variant("hyper_connection", "cpu"); }

TEST(HyperConnection, ColumnsOfCombSumToOneAndRowsNearlySo) {
  Problem p = filled("hyper_connection", "t=5 n=4 c=6");
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t token = 0; token < 5; ++token)
    for (int64_t i = 0; i < 4; ++i) {
      double column = 0, row = 0;
      for (int64_t j = 0; j < 4; ++j) column += value_at(p["comb"], token * 16 + j * 4 + i), row += value_at(p["comb"], token * 16 + i * 4 + j);
      EXPECT_NEAR(column, 1, 2e-6) << "the last step is a column step, with hc_eps in the divisor";
      EXPECT_NEAR(row, 1, 1e-2);
    }
}

TEST(HyperConnection, OneStreamIsAWeightedResidual) {
  Problem p = filled("hyper_connection", "t=3 n=1 c=4 k=3 hc_eps=0");
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_NEAR(value_at(p["x_out"], i), value_at(p["post"], i / 4) * value_at(p["u"], i) + value_at(p["x"], i), 1e-14);
}

TEST(HyperConnection, CombMovesSourceRowsToDestinationColumns) {
  Problem p = filled("hyper_connection", "t=1 n=2 c=1 k=8");
  fill(p["fn"], 0), fill(p["scale"], 0), fill(p["base"], 0);
  const double swap[] = {-30, 0, 30, -30};  // comb logits: both rows prefer one column
  set_value(p["base"], 4, swap[0]), set_value(p["base"], 5, swap[1]);
  set_value(p["base"], 6, swap[2]), set_value(p["base"], 7, swap[3]);
  set_value(p["x"], 0, 5), set_value(p["x"], 1, 7), set_value(p["u"], 0, 0);
  run_variant(cpu(), p, Phase::Forward);
  EXPECT_NEAR(value_at(p["x_out"], 1), 5, 1e-4) << "source 0 goes to destination 1";
  EXPECT_NEAR(value_at(p["x_out"], 0), 7, 1e-4);
}

TEST(HyperConnection, EntryEqualsStreamsThatAreCopiesAndItsGradientIsTheirSum) {
  Problem entry = filled("hyper_connection", "t=4 n=3 c=5 k=15 entry=1 exit=1"), plain = filled("hyper_connection", "t=4 n=3 c=5 k=15 exit=1");
  for (const char* name : {"fn", "base", "scale", "u", "dy", "dx_out", "dpooled"}) copy(entry[name], plain[name]);
  for (int64_t i = 0; i < plain["x"].size(); ++i) set_value(plain["x"], i, value_at(entry["e"], i / 15 * 5 + i % 5));
  run_variant(cpu(), entry, Phase::Both), run_variant(cpu(), plain, Phase::Both);
  for (const char* name : {"y", "x_out", "pooled", "dfn", "du"}) EXPECT_LE(relative_rms(entry[name], plain[name]), 1e-14) << name;
  Tensor sum = Tensor::zeros(DType::F64, entry["de"].shape);
  for (int64_t i = 0; i < plain["dx"].size(); ++i) set_value(sum, i / 15 * 5 + i % 5, value_at(sum, i / 15 * 5 + i % 5) + value_at(plain["dx"], i));
  EXPECT_LE(relative_rms(entry["de"], sum), 1e-13);
}

TEST(HyperConnection, RefusesAMappingOfTheWrongSize) {
  EXPECT_EQ(message_of([] { filled("hyper_connection", "t=1 n=4 c=2 k=23"); }), "hyper_connection: fn has k=23 rows, expected 2n + n² = 24 for n=4 streams");
}

}  // namespace
}  // namespace megatoken
