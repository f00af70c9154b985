// What every selection of keys, and every attention over selected keys, must get right beyond single scores (tests/reference/components/
// index_topk_test.cpp): counts that meet topk exactly, long launches, ids in bounds and in order, keys and rows that nobody selected.
#include <algorithm>
#include <bit>

#include "tests/variants/every_variant.hpp"

namespace megatoken::test {
namespace {

std::vector<const Variant*> of(const std::string& component) {
  return cpu_variants([component](const Variant& v) { return v.component == component; });
}

class EverySelection : public testing::TestWithParam<const Variant*> {};

// tilelang #2513: a threshold search by digits took the wrong bucket when the candidates above it were exactly topk. Here that happens at
// each bit of an fp32 score in turn: `topk` scores have it, all others do not.
TEST_P(EverySelection, CountsThatMeetTopkExactlyAtAnyBitOfTheScore) {
  const int64_t n = 3000, topk = 64;
  for (int bit = 0; bit < 31; ++bit)
    for (const int64_t above : {topk - 1, topk, topk + 1}) {
      Problem p = filled("index_topk", format("t=1 s={} h=1 d=1 topk={} pool=1", n, topk), DType::F32);
      fill(p["q"], 1), fill(p["w"], 1);
      std::vector<int32_t> want;
      for (int64_t i = 0, chosen = 0; i < n; ++i) {
        const bool high = i * 40503 % n < above;
        const uint32_t common = bit == 30 ? 0 : 0x20000000u & ~(1u << bit);
        set_value(p["k"], i, static_cast<double>(std::bit_cast<float>(common | (high ? 1u << bit : 0u))));
        if (high && chosen < topk) want.push_back(static_cast<int32_t>(i)), ++chosen;
      }
      for (int64_t i = 0; static_cast<int64_t>(want.size()) < topk; ++i)  // one more, of the equal rest the lowest
        if (i * 40503 % n >= above) want.push_back(static_cast<int32_t>(i));
      std::sort(want.begin(), want.end());
      run_variant(*GetParam(), p, Phase::Forward);
      EXPECT_TRUE(std::equal(want.begin(), want.end(), p["id"].as<int32_t>())) << above << " scores with bit " << bit;
    }
}

// llama.cpp #27752: a launch over more than 65,535 queries.
TEST_P(EverySelection, MoreThan65535QueriesAreAllAnswered) {
  if (GetParam()->name == "cpu") return;  // the square of the tokens is too slow
  const int64_t t = 66000;
  Problem whole = filled("index_topk", format("t={} h=1 d=1 topk=2 docs=600", t), DType::F32), last = filled("index_topk", format("t=50 s={} h=1 d=1 topk=2", t), DType::F32);
  for (const char* name : {"k", "document"}) copy(whole[name], last[name]);
  for (const char* name : {"q", "w"}) copy(whole[name].slice(1, t - 50, t), last[name]);
  copy(whole["position"].slice(0, t - 50, t), last["position"]);
  run_variant(*GetParam(), whole, Phase::Forward, 2), run_variant(find_variant("index_topk", "cpu"), last, Phase::Forward);
  EXPECT_TRUE(equal(whole["id"].slice(1, t - 50, t), last["id"]));
}

// vllm #53906: ids from a buffer that held something else. Megatron #7169: sums in another order where ids are not ascending.
TEST_P(EverySelection, IdsAscendWithoutRepeatsAndNeverPassTheirQuery) {
  for (const char* distribution : {"normal", "aimed", "extreme", "tokens"}) {
    const Problem p = judging_problem(*GetParam(), DType::F32, "", distribution);
    const int64_t t = p.axes()["t"], width = p["id"].shape[2], pool = p.axes()["pool"], topk = p.axes()["topk"];
    fill(p["id"], 0x7fffffff);
    run_variant(*GetParam(), p, Phase::Forward, 2);
    const auto* document = p["document"].as<int32_t>();
    for (int64_t row = 0; row < p["id"].size() / width; ++row) {
      const int32_t* id = p["id"].as<int32_t>() + row * width;
      const int64_t query = row % t, batch = row / t * t;
      int64_t start = query, count = 0;
      while (start > 0 && document[batch + start - 1] == document[batch + query]) --start;
      for (; count < width && id[count] >= 0; ++count) {
        EXPECT_TRUE(count == 0 || id[count] > id[count - 1]) << row;
        EXPECT_TRUE(id[count] >= start && id[count] <= query) << row << " selects " << id[count];
      }
      for (int64_t j = count; j < width; ++j) EXPECT_EQ(id[j], -1) << "row " << row << " slot " << j;
      const int64_t pools = (query + 1 - start) / pool;
      EXPECT_EQ(count, std::min(pools, topk) * pool + (query + 1 - start) % pool) << "row " << row;
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EverySelection, testing::ValuesIn(of("index_topk")), variant_name);

class EverySparseAttention : public testing::TestWithParam<const Variant*> {};

// vllm #36524, flashinfer #5095: stale keys behind the selected ones. tilelang #1209: 0 · ∞ where a slot is empty. FlashMLA fills unused
// keys with NaN.
TEST_P(EverySparseAttention, KeysAndRowsThatNothingSelectsMayHoldNaN) {
  const Problem clean = judging_problem(*GetParam(), DType::F32, "hk=2 direct=1");
  const int64_t t = clean.axes()["t"], n = clean.axes()["n"];
  for (int64_t i = 0; i < clean["id"].size(); ++i) {
    int32_t& id = clean["id"].as<int32_t>()[i];
    if (id % 3 == 0 || i / n % t % 11 == 4) id = -1;  // no key 0, 3, 6 …; whole rows without keys
  }
  const Problem dirty = clean.converted(DType::F32);
  for (const char* name : {"k", "v"})
    for (int64_t token = 0; token < t; token += 3) fill(dirty[name].slice(1, token, token + 1), std::nan(""));
  for (const char* name : {"q", "do"})
    for (int64_t token = 4; token < t; token += 11) fill(dirty[name].slice(1, token, token + 1), std::nan(""));
  for (const Problem* p : {&clean, &dirty}) run_variant(*GetParam(), *p, Phase::Both, 2);
  for (const char* name : {"o", "lse", "dq", "dk", "dv"}) EXPECT_TRUE(same_result(*GetParam(), dirty[name], clean[name])) << name;
  for (const char* name : {"dk", "dv"})
    for (int64_t token = 0; token < t; token += 3) EXPECT_EQ(relative_rms(clean[name].slice(1, token, token + 1), Tensor::zeros(DType::F32, {2, 1, 2, clean[name].shape[3]})), 0) << name;
}

// tilelang #2199, slime #2201: for some numbers of tiles a buffer was overwritten while it was still read.
TEST_P(EverySparseAttention, AnyNumberOfSlotsHasTheGradientsOfTheOracle) {
  for (const int64_t n : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 192, 255, 257}) {
    const Problem got = filled("sparse_attention", format("t=70 s=300 h=3 d=9 dv=5 hk=1 direct=1 n={}", n)), want = got.converted(DType::F64);
    run_variant(*GetParam(), got, Phase::Both, 2), run_variant(find_variant("sparse_attention", "cpu"), want, Phase::Both);
    EXPECT_LE(worst_difference(got, want), 1e-12) << n << " slots";
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, EverySparseAttention, testing::ValuesIn(of("sparse_attention")), variant_name);

}  // namespace
}  // namespace megatoken::test
