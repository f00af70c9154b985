// Selection: order, ties, tail, visibility; the inputs that public top-k kernels got wrong (dsa.md §6), at their real widths.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;

const Variant& cpu() { return find_variant("index_topk", "cpu"); }

std::vector<int64_t> ids_of(const Problem& p, int64_t query) {
  const int64_t width = p["id"].shape[2];
  std::vector<int64_t> ids;
  for (int64_t j = 0; j < width; ++j) ids.push_back(static_cast<int64_t>(value_at(p["id"], query * width + j)));
  return ids;
}

/// One query at the end of `scores`, whose pools of one token have exactly these fp32 scores. q = w = 1 and k = score.
Problem with_scores(const std::vector<float>& scores, int64_t topk) {
  Problem p = filled("index_topk", format("t=1 s={} h=1 d=1 topk={} pool=1", scores.size(), topk), DType::F32);
  fill(p["q"], 1), fill(p["w"], 1);
  for (size_t i = 0; i < scores.size(); ++i) p["k"].as<float>()[i] = scores[i];
  return p;
}

/// The ids of the topk best by sorting all of them, ascending.
std::vector<int64_t> best_by_sorting(const std::vector<float>& scores, int64_t topk) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; });
  order.resize(static_cast<size_t>(topk));
  std::sort(order.begin(), order.end());
  return order;
}

struct Plateau {
  const char* name;
  std::function<float(int64_t)> score;
};

class IndexTopkScores : public testing::TestWithParam<const Variant*> {};

TEST_P(IndexTopkScores, AreSelectedExactlyAtTheWidthOfAMillionTokens) {
  const Plateau plateaus[] = {
      {"within one part in 8192 (tilelang #1351)", [](int64_t i) { return 1 + static_cast<float>(i * 40503 % 1024) * 0x1p-23f; }},
      {"heavy duplicates (flashinfer #2604)", [](int64_t i) { return static_cast<float>(i % 64) / 64; }},
      {"ramp (b12x #55)", [](int64_t i) { return static_cast<float>(i); }},
      {"reversed ramp", [](int64_t i) { return static_cast<float>(1 << 20) - static_cast<float>(i); }},
      {"constant and one outlier (sglang #32094)", [](int64_t i) { return i == 77777 ? 3.0f : 2.0f; }},
      {"beyond fp16 (sglang #37591)", [](int64_t i) { return 60000 + static_cast<float>(i % 8191) * 16; }},
      {"plateau of exact zeros (sglang #31115)", [](int64_t i) { return i % 1000 == 500 ? 1.0f + static_cast<float>(i) : 0.0f; }}};
  for (const auto& [name, score] : plateaus)
    for (int64_t n : {int64_t{262144}, int64_t{262209}}) {  // also an odd width (cudnn-frontend #311)
      std::vector<float> scores(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) scores[static_cast<size_t>(i)] = score(i);
      Problem p = with_scores(scores, 512);
      run_variant(*GetParam(), p, Phase::Forward);
      EXPECT_EQ(ids_of(p, 0), best_by_sorting(scores, 512)) << name << ", " << n << " candidates";
    }
}

std::vector<const Variant*> cpu_variants() {
  std::vector<const Variant*> found;
  for (const Variant* variant : variants_of("index_topk"))
    if (variant->device == Device::Cpu) found.push_back(variant);
  return found;
}
INSTANTIATE_TEST_SUITE_P(Variants, IndexTopkScores, testing::ValuesIn(cpu_variants()), [](const auto& info) { return info.param->name; });

TEST(IndexTopk, AllZeroScoresGiveTheLowestPools) {
  Problem p = filled("index_topk", "t=41 h=2 d=4 topk=3");
  fill(p["q"], 0);
  run_variant(cpu(), p, Phase::Forward);
  const auto ids = ids_of(p, 40);
  EXPECT_EQ(ids, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 40, -1, -1}));
}

TEST(IndexTopk, BothZerosAreOneScoreAndNegativeScoresComeAfterThem) {
  Problem p = with_scores({1, 1, 1, 1}, 2);
  const float k[] = {1, 1, -1, 1};  // ReLU cuts the third
  for (int i = 0; i < 4; ++i) p["k"].as<float>()[i] = k[i];
  set_value(p["w"], 0, -1);         // scores −1 −1 ±0 −1
  run_variant(cpu(), p, Phase::Forward);
  EXPECT_EQ(ids_of(p, 0), (std::vector<int64_t>{0, 2}));
}

TEST(IndexTopk, VeryNegativeScoresAreStillCandidates) {  // cudnn-frontend #446: lanes out of range won against scores below −65504
  for (int64_t n : {100, 700}) {
    Problem p = with_scores(std::vector<float>(static_cast<size_t>(n), 1e6f), 512);
    set_value(p["w"], 0, -1);
    run_variant(cpu(), p, Phase::Forward);
    const auto ids = ids_of(p, 0);
    for (int64_t j = 0; j < 512; ++j) EXPECT_EQ(ids[static_cast<size_t>(j)], j < n ? j : -1);
  }
}

TEST(IndexTopk, ShortQueriesSelectEverythingTheySee) {  // the query's document up to itself, while it has at most topk pools
  Problem p = filled("index_topk", "b=2 t=60 h=2 d=4 topk=30 docs=3", DType::F64, "aimed");
  run_variant(cpu(), p, Phase::Forward);
  const auto* document = p["document"].as<int32_t>();
  for (int64_t row = 0; row < 120; ++row) {
    std::vector<int64_t> want;
    for (int64_t j = 0; j <= row % 60; ++j)
      if (document[row / 60 * 60 + j] == document[row]) want.push_back(j);
    want.resize(static_cast<size_t>(p["id"].shape[2]), -1);
    EXPECT_EQ(ids_of(p, row), want) << "query " << row;
  }
}

TEST(IndexTopk, TheFirstQueryThatDropsATokenIsTheOneAfterTheWidth) {
  Problem p = filled("index_topk", "t=2053 h=1 d=4 topk=512");
  run_variant(cpu(), p, Phase::Forward);
  const auto seen = [&](int64_t query) {
    const auto ids = ids_of(p, query);
    return std::count_if(ids.begin(), ids.end(), [](int64_t id) { return id >= 0; });
  };
  for (int64_t query : {2046, 2047, 2048, 2049, 2050}) EXPECT_EQ(seen(query), query + 1);
  EXPECT_EQ(seen(2051), 2048) << "513 pools, no tail: a query may not see itself";
  EXPECT_EQ(seen(2052), 2049);
}

TEST(IndexTopk, QueriesAtGivenPositionsSelectWhatTheWholeSequenceSelects) {  // chunks, zig-zag shards (Megatron #5099, cudnn-frontend #561)
  Problem whole = filled("index_topk", "b=2 t=90 h=2 d=4 topk=3 docs=2", DType::F64, "aimed");
  run_variant(cpu(), whole, Phase::Forward);
  const std::vector<int64_t> order{89, 3, 40, 41, 0, 70};
  Problem part = filled("index_topk", "b=2 t=6 s=90 h=2 d=4 topk=3 docs=2");
  for (const char* name : {"k", "document"}) copy(whole[name], part[name]);
  for (const char* name : {"q", "w"}) copy(gather_rows(whole[name], 1, order), part[name]);
  for (size_t i = 0; i < order.size(); ++i) part["position"].as<int32_t>()[i] = static_cast<int32_t>(order[i]);
  run_variant(cpu(), part, Phase::Forward);
  EXPECT_EQ(test::relative_rms(part["id"], gather_rows(whole["id"], 1, order)), 0);
}

TEST(IndexTopk, AllPrecisionsChooseTheSame) {
  for (const char* distribution : {"normal", "aimed", "extreme", "tokens"}) {
    Problem wide = filled("index_topk", "b=2 t=120 h=32 d=128 topk=5 docs=2", DType::F64, distribution);
    run_variant(cpu(), wide, Phase::Forward);
    for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      Problem narrow = wide.converted(dtype);
      run_variant(cpu(), narrow, Phase::Forward);
      EXPECT_EQ(test::relative_rms(narrow["id"], wide["id"]), 0) << distribution << " " << to_string(dtype);
    }
  }
}

TEST(IndexTopk, PaddingSelectsNothing) {
  Problem p = filled("index_topk", "t=9 h=1 d=2 topk=2");
  for (int64_t i = 5; i < 9; ++i) p["document"].as<int32_t>()[i] = -1;
  run_variant(cpu(), p, Phase::Forward);
  for (int64_t query = 5; query < 9; ++query)
    for (int64_t id : ids_of(p, query)) EXPECT_EQ(id, -1);
}

TEST(IndexTopk, RefusesWhatDoesNotFit) {
  Problem p = filled("index_topk", "t=3 s=9 h=1 d=2 topk=2");
  p["position"].as<int32_t>()[1] = 9;
  EXPECT_NE(test::message_of([&] { run_variant(cpu(), p, Phase::Forward); }).find("position of query 1 is 9, expected a key token in [0, 9)"), std::string::npos);
  EXPECT_NE(test::message_of([] { filled("index_topk", "t=10 s=9"); }).find("t=10 queries among s=9 key tokens"), std::string::npos);
}

}  // namespace
}  // namespace megatoken
