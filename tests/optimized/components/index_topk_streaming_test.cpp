// index_topk/streaming against the reference where it matters: ties, documents, buffers that fill again and again; and the same bits for any
// number of threads and any chunk of queries.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;

const Variant& streaming() { return find_variant("index_topk", "streaming"); }

void expect_same(const Problem& got, const Problem& want, const std::string& what) {
  for (const char* name : {"id", "score"}) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < want[name].size(); ++i) wrong += value_at(got[name], i) != value_at(want[name], i);
    EXPECT_EQ(wrong, 0) << what << ": " << name;
  }
}

TEST(StreamingSelection, EqualsTheReferenceOnEveryExampleAndDistribution) {
  const Component& component = find_component("index_topk");
  auto examples = component.examples;
  examples.push_back(component.judging);
  examples.push_back("b=1 t=700 h=3 d=8 topk=5 docs=2");
  examples.push_back("t=40 s=900 h=2 d=4 topk=9 pool=1");
  for (const auto& axes : examples)
    for (const char* distribution : {"normal", "aimed", "extreme", "tokens"})
      for (DType dtype : {DType::F64, DType::F32, DType::BF16}) {
        Problem want = filled("index_topk", axes, dtype, distribution), got = test::with_inputs_of(want, axes);
        run_variant(find_variant("index_topk", "cpu"), want, Phase::Forward), run_variant(streaming(), got, Phase::Forward);
        expect_same(got, want, format("{} {} {}", axes, distribution, to_string(dtype)));
      }
}

TEST(StreamingSelection, ScoresThatRiseTowardsTheFirstPoolFillTheBufferAgainAndAgain) {
  Problem want = filled("index_topk", "t=3 s=5000 h=1 d=1 topk=3 pool=1", DType::F32), got = test::with_inputs_of(want, "t=3 s=5000 h=1 d=1 topk=3 pool=1");
  for (const Problem* p : {&want, &got}) {
    fill((*p)["q"], 1), fill((*p)["w"], 1);
    for (int64_t i = 0; i < 5000; ++i) set_value((*p)["k"], i, static_cast<double>(5000 - i));
  }
  run_variant(find_variant("index_topk", "cpu"), want, Phase::Forward), run_variant(streaming(), got, Phase::Forward);
  expect_same(got, want, "ramp");
  for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(value_at(got["id"], j), static_cast<double>(j));
}

TEST(StreamingSelection, RealValuedInputsGiveTheSameBitsForAnyThreadsAndChunks) {
  const std::string axes = "t=300 h=3 d=24 topk=11 docs=2";
  Problem one = filled("index_topk", axes, DType::F32);
  for (const char* name : {"q", "w", "k"}) fill_normal(one[name], 3, name);  // not exact: a different order of sums would show
  run_variant(streaming(), one, Phase::Forward, 1);
  for (int threads : {2, 3, 7}) {
    Problem again = test::with_inputs_of(one, axes);
    run_variant(streaming(), again, Phase::Forward, threads);
    expect_same(again, one, format("{} threads", threads));
  }
  for (int64_t rows : {1, 7, 128}) {
    for (int64_t first = 0; first < 300; first += rows) {
      const int64_t count = std::min<int64_t>(rows, 300 - first);
      Problem part = filled("index_topk", format("t={} s=300 h=3 d=24 topk=11 docs=2", count), DType::F32);
      for (const char* name : {"k", "document"}) copy(one[name], part[name]);
      for (const char* name : {"q", "w"}) copy(one[name].slice(1, first, first + count), part[name]);
      copy(one["position"].slice(0, first, first + count), part["position"]);
      run_variant(streaming(), part, Phase::Forward, 2);
      const Tensor id = clone(one["id"].slice(1, first, first + count)), score = clone(one["score"].slice(1, first, first + count));
      EXPECT_EQ(std::memcmp(part["id"].data, id->data, static_cast<size_t>(id->bytes())), 0) << "rows " << first << " + " << count;
      EXPECT_EQ(std::memcmp(part["score"].data, score->data, static_cast<size_t>(score->bytes())), 0) << "rows " << first << " + " << count;
    }
  }
}

TEST(StreamingSelection, WorkspaceDoesNotGrowWithTheScores) {
  const Component& component = find_component("index_topk");
  const auto bytes = [&](const char* axes) { return streaming().workspace(component.complete(Axes::parse(axes)), DType::F32, Phase::Forward); };
  const int64_t pools = 8 * ((1 << 20) - (1 << 14)) / 4;  // the table of pools: 8 bytes a pool
  EXPECT_EQ(bytes("t=1Mi topk=512") - bytes("t=16Ki topk=512"), pools);
  EXPECT_LT(bytes("t=1Mi topk=512"), int64_t{64} << 20);
}

TEST(StreamingSelection, ANeedleAtTheStartIsFoundAcrossAMillionTokens) {  // mlx-lm #1454: only the newest tokens were selected past 128k
  Problem p = filled("index_topk", "t=2 s=1Mi h=1 d=1 topk=4", DType::F32);
  fill(p["q"], 1), fill(p["w"], 1);
  for (int64_t i = 0; i < p["k"].size(); ++i) set_value(p["k"], i, static_cast<double>(i % 97) / 128);
  set_value(p["k"], 4, 2);  // tokens 16 to 19
  run_variant(streaming(), p, Phase::Forward, 2);
  for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(value_at(p["id"], j), static_cast<double>(16 + j));
}

}  // namespace
}  // namespace megatoken
