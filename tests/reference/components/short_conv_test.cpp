// short_conv: identities that need no second implementation, borders, carried history, refusals.
#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::message_of;
using test::relative_rms;

const Variant& cpu() { return find_variant("short_conv", "cpu"); }

double silu(double z) { return z / (1 + std::exp(-z)); }

TEST(ShortConv, WithOnlyTheLastTapIsSiluOfTheInput) {
  Problem p = filled("short_conv", "b=2 t=9 c=3");
  for (int64_t i = 0; i < p["w"].size(); ++i) set_value(p["w"], i, i % 4 == 3 ? 1 : 0);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t i = 0; i < p["y"].size(); ++i) EXPECT_DOUBLE_EQ(value_at(p["y"], i), silu(value_at(p["x"], i)));
}

TEST(ShortConv, FirstTapReachesThreeTokensBack) {
  Problem p = filled("short_conv", "b=1 t=6 c=1");
  for (int64_t i = 0; i < 4; ++i) set_value(p["w"], i, i == 0 ? 1 : 0);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t i = 0; i < 6; ++i) EXPECT_DOUBLE_EQ(value_at(p["y"], i), i < 3 ? 0 : silu(value_at(p["x"], i - 3)));
}

TEST(ShortConv, PrefixDoesNotDependOnTheFuture) {
  Problem p = filled("short_conv", "b=1 t=20 c=2");
  run_variant(cpu(), p, Phase::Forward);
  const Tensor before = clone(p["y"]);
  fill(p["x"].slice(1, 13, 20), 1e3);
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t i = 0; i < 13 * 2; ++i) EXPECT_EQ(value_at(p["y"], i), value_at(before, i));
}

TEST(ShortConv, PackedDocumentsEqualDocumentsAlone) {
  Problem packed = filled("short_conv", "b=1 t=23 c=3 docs=4");
  run_variant(cpu(), packed, Phase::Both);
  const auto* document = packed["document"].as<int32_t>();
  Tensor dw = Tensor::zeros(DType::F64, packed["dw"].shape);
  for (int64_t begin = 0; begin < 23;) {
    int64_t end = begin;
    while (end < 23 && document[end] == document[begin]) ++end;
    Problem alone = filled("short_conv", "b=1 c=3 t=" + std::to_string(end - begin));
    for (const char* name : {"x", "dy"}) copy(packed[name].slice(1, begin, end), alone[name]);
    copy(packed["w"], alone["w"]);
    run_variant(cpu(), alone, Phase::Both);
    for (const char* name : {"y", "dx"}) EXPECT_EQ(relative_rms(alone[name], packed[name].slice(1, begin, end)), 0) << name << " of rows " << begin;
    for (int64_t i = 0; i < dw->size(); ++i) set_value(dw, i, value_at(dw, i) + value_at(alone["dw"], i));
    begin = end;
  }
  EXPECT_LE(relative_rms(dw, packed["dw"]), 1e-14);
}

// Shards of 1, 2 and 3 tokens are shorter than the halo of 3, so history passes through them
// (flash-linear-attention #774: reads beyond the shard; #1140: wrong gradients on short shards).
TEST(ShortConv, CutsIntoShortShardsLeaveNoTrace) {
  Problem whole = filled("short_conv", "b=2 t=17 c=3 halo=3 docs=3");
  run_variant(cpu(), whole, Phase::Both);
  const std::vector<int64_t> cuts{0, 1, 3, 6, 7, 8, 9, 14, 17};
  std::vector<Problem> shards;
  for (size_t s = 0; s + 1 < cuts.size(); ++s) {
    shards.push_back(filled("short_conv", "b=2 c=3 halo=3 t=" + std::to_string(cuts[s + 1] - cuts[s])));
    Problem& shard = shards.back();
    for (const char* name : {"x", "dy", "document"}) copy(whole[name].slice(1, cuts[s], cuts[s + 1]), shard[name]);
    copy(whole["w"], shard["w"]);
    copy(s == 0 ? whole["history"] : shards[s - 1]["final_history"], shard["history"]);
    for (int64_t b = 0; b < 2 && s > 0; ++b)  // a document that starts at the cut has no history
      if (value_at(whole["document"], b * 17 + cuts[s]) != value_at(whole["document"], b * 17 + cuts[s] - 1)) fill(shard["history"].slice(0, b, b + 1), 0);
    run_variant(cpu(), shard, Phase::Forward);
    EXPECT_EQ(relative_rms(shard["y"], whole["y"].slice(1, cuts[s], cuts[s + 1])), 0) << "shard " << s;
  }
  EXPECT_EQ(relative_rms(shards.back()["final_history"], whole["final_history"]), 0);

  Tensor dw = Tensor::zeros(DType::F64, whole["dw"].shape);
  for (size_t s = shards.size(); s-- > 0;) {
    Problem& shard = shards[s];
    copy(s + 1 == shards.size() ? whole["dfinal_history"] : shards[s + 1]["dhistory"], shard["dfinal_history"]);
    for (int64_t b = 0; b < 2 && s + 1 < shards.size(); ++b)
      if (value_at(whole["document"], b * 17 + cuts[s + 1]) != value_at(whole["document"], b * 17 + cuts[s + 1] - 1)) fill(shard["dfinal_history"].slice(0, b, b + 1), 0);
    run_variant(cpu(), shard, Phase::Backward);
    EXPECT_LE(relative_rms(shard["dx"], whole["dx"].slice(1, cuts[s], cuts[s + 1])), 1e-15) << "shard " << s;
    for (int64_t i = 0; i < dw->size(); ++i) set_value(dw, i, value_at(dw, i) + value_at(shard["dw"], i));
  }
  EXPECT_LE(relative_rms(dw, whole["dw"]), 1e-14);
  EXPECT_LE(relative_rms(shards.front()["dhistory"], whole["dhistory"]), 1e-15);
}

// A gradient that arrives as a view into something wider is not contiguous (flash-linear-attention #871, #1138, #1139).
TEST(ShortConv, HonoursStridesOfInputsAndGradients) {
  Problem p = filled("short_conv", "b=2 t=11 c=3 halo=3 docs=2");
  run_variant(cpu(), p, Phase::Both);
  Problem strided = test::with_inputs_of(p, "b=2 t=11 c=3 halo=3 docs=2");
  std::vector<Tensor> wide;
  std::vector<TensorView> views(strided.views().begin(), strided.views().end());
  for (const char* name : {"x", "dy", "dx", "y"}) {
    wide.push_back(Tensor::zeros(DType::F64, {2, 11, 8}));
    TensorView view = wide.back()->slice(2, 4, 7);
    copy(strided[name], view);
    views[p.component().index(name)] = view;
  }
  Context context;
  const Call call{strided.axes(), DType::F64, views, context};
  cpu().forward(call);
  cpu().backward(call);
  for (const char* name : {"y", "dx"}) EXPECT_EQ(relative_rms(views[p.component().index(name)], p[name]), 0) << name;
  EXPECT_EQ(relative_rms(strided["dw"], p["dw"]), 0);
}

// flash-linear-attention #955: dweight sixteen times too large when b > 1 meets packed documents.
TEST(ShortConv, WeightGradientOfABatchIsTheSumOverItsRows) {
  Problem p = filled("short_conv", "b=3 t=15 c=2 docs=4");
  run_variant(cpu(), p, Phase::Both);
  Tensor sum = Tensor::zeros(DType::F64, p["dw"].shape);
  for (int64_t b = 0; b < 3; ++b) {
    Problem row = filled("short_conv", "b=1 t=15 c=2");
    for (const char* name : {"x", "dy", "document"}) copy(p[name].slice(0, b, b + 1), row[name]);
    copy(p["w"], row["w"]);
    run_variant(cpu(), row, Phase::Both);
    for (int64_t i = 0; i < sum->size(); ++i) set_value(sum, i, value_at(sum, i) + value_at(row["dw"], i));
  }
  EXPECT_LE(relative_rms(sum, p["dw"]), 1e-15);
}

TEST(ShortConv, PaddingRowsAreZeroAndHistoryEndsAtTheLastRealToken) {
  Problem p = filled("short_conv", "b=1 t=8 c=2 halo=3");
  for (int64_t i = 0; i < 8; ++i) set_value(p["document"], i, i < 5 ? 0 : -1);
  run_variant(cpu(), p, Phase::Both);
  for (const char* name : {"y", "dx"})
    for (int64_t i = 5 * 2; i < 8 * 2; ++i) EXPECT_EQ(value_at(p[name], i), 0) << name;
  EXPECT_EQ(relative_rms(p["final_history"], p["x"].slice(1, 2, 5)), 0);
}

TEST(ShortConv, WithoutTokensHistoryPassesThrough) {
  Problem p = filled("short_conv", "b=2 t=0 c=3 halo=3");
  run_variant(cpu(), p, Phase::Both);
  EXPECT_EQ(relative_rms(p["final_history"], p["history"]), 0);
  EXPECT_EQ(relative_rms(p["dhistory"], p["dfinal_history"]), 0);
  for (int64_t i = 0; i < p["dw"].size(); ++i) EXPECT_EQ(value_at(p["dw"], i), 0);
}

TEST(ShortConv, LowerPrecisionFollowsTheOracleWithinItsRounding) {
  for (const auto& [dtype, limit] : {std::pair{DType::F32, 1e-6}, std::pair{DType::BF16, 5e-3}, std::pair{DType::F16, 1e-3}}) {
    Problem low = filled("short_conv", "b=2 t=64 c=8 docs=3 halo=3", dtype, "aimed");
    Problem oracle = low.converted(DType::F64);
    run_variant(cpu(), low, Phase::Both);
    run_variant(cpu(), oracle, Phase::Both);
    EXPECT_LE(test::worst_difference(low, oracle), limit) << to_string(dtype);
  }
}

TEST(ShortConv, DoesNotDependOnTheThreadCount) {
  Problem one = filled("short_conv", "b=2 t=30 c=5 docs=3 halo=3", DType::F32);
  Problem four = test::with_inputs_of(one, "b=2 t=30 c=5 docs=3 halo=3");
  run_variant(cpu(), one, Phase::Both, 1);
  run_variant(cpu(), four, Phase::Both, 4);
  EXPECT_EQ(test::worst_difference(four, one), 0);
}

TEST(ShortConv, RefusesAHistoryThatDoesNotFitTheWidth) {
  const std::string message = message_of([] { filled("short_conv", "b=1 t=4 c=2 halo=2"); });
  for (const char* part : {"history", "halo=2", "expected 3", "width=4"}) EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace
}  // namespace megatoken
