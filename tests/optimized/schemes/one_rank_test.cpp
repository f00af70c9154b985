// Every scheme of attention against one rank at fp64, forward and every gradient, over ranks, lengths, batches, documents, heads, masks.
#include "tests/optimized/schemes/distance.hpp"

namespace megatoken {
namespace {

const char* const kHeads[] = {"h=1 hk=1 d=3", "h=6 hk=1 d=2 dv=3", "h=3 hk=3 d=4 dv=1", "h=4 hk=2 d=2"};

struct Setting {
  std::string scheme;
  int ranks;
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Scheme* scheme : schemes_of("attention"))
    for (int ranks : {1, 2, 3, 4, 5, 8}) all.push_back({scheme->name, ranks});
  return all;
}

class AgainstOneRank : public testing::TestWithParam<Setting> {
 protected:
  void expect_equal(const std::string& axes, const LocalOptions& options = {}, const std::string& distribution = "normal") {
    SCOPED_TRACE(axes + " " + distribution);
    const auto& [scheme, ranks] = GetParam();
    Problem whole = test::filled("attention", axes, DType::F64, distribution, seed_++);
    const SchemeRun run = run_scheme(find_scheme("attention", scheme), find_variant("attention", "cpu"), whole, ranks, Phase::Both, 1, options);
    run_variant(find_variant("attention", "cpu"), whole, Phase::Both);
    expect_close(run.result, whole, 1e-12);
  }

 private:
  uint64_t seed_ = 1;
};

TEST_P(AgainstOneRank, AtEveryLengthUpToFourChunksARankAndOne) {
  for (int64_t t = 1; t <= 4 * GetParam().ranks + 1; ++t)
    for (int causal : {0, 1})
      expect_equal(format("b={} t={} {} docs={} causal={}", 1 + t % 3, t, kHeads[t % 4], 1 + (t / 2 + causal) % 4, causal));
}

TEST_P(AgainstOneRank, ForAllBatchesAndDocumentsWithAndWithoutPadding) {
  const int64_t n = 2 * GetParam().ranks;
  for (int b = 1; b <= 3; ++b)
    for (int docs = 1; docs <= 4; ++docs)
      for (int64_t t : {3 * n, 2 * n + 1, 3 * n - 1}) expect_equal(format("b={} t={} {} docs={}", b, t, kHeads[(b + docs) % 4], docs));
}

TEST_P(AgainstOneRank, WithNoTokensAndWithMoreDocumentsThanTokens) {
  expect_equal("b=2 t=0 h=2 d=3");
  expect_equal("b=2 t=5 h=2 d=3 docs=9");
  expect_equal("b=2 t=0 h=2 d=3 causal=0");
}

TEST_P(AgainstOneRank, OnAimedAndExtremeInputs) {
  for (const char* distribution : {"aimed", "extreme", "tokens"}) {
    expect_equal("b=2 t=53 h=4 hk=2 d=8 docs=3", {}, distribution);
    expect_equal("b=1 t=64 h=2 d=8 causal=0", {}, distribution);
  }
}

TEST_P(AgainstOneRank, WithRandomDelaysAndDeliveryOrder) {
  for (uint64_t seed = 1; seed <= 4; ++seed)
    expect_equal(format("b=2 t={} h=4 hk=2 d=3 docs=2 causal={}", 37 + seed, seed % 2), {.timeout = 30, .delay = 1e-3, .reorder = true, .seed = seed});
}

INSTANTIATE_TEST_SUITE_P(Schemes, AgainstOneRank, testing::ValuesIn(settings()),
                         [](const auto& info) { return info.param.scheme + "_" + std::to_string(info.param.ranks) + "_ranks"; });

}  // namespace
}  // namespace megatoken
