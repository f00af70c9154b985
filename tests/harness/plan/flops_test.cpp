// FLOP counts: pairs against plain counting, a published table, and the rule of six FLOPs per parameter and token.
#include "harness/plan/flops.hpp"

#include "harness/plan/time.hpp"
#include "reference/model/parameters.hpp"
#include "tests/harness/plan/requests.hpp"

namespace megatoken::plan {
namespace {

double forward_of(const Request& r, const std::string& component) {
  for (const auto& c : plan_flops(r))
    if (component == c.component) return c.forward;
  return 0;
}

TEST(PlanFlops, PairsEqualCounting) {
  SparseAttentionConfig a;
  for (int64_t pool : {1, 3, 4})
    for (int64_t topk : {12, 48})
      for (bool tail : {true, false}) {
        a.index_pool = pool;
        a.index_topk = topk;
        a.always_select_tail = tail;
        int64_t indexed = 0, selected = 0;
        for (int64_t t = 1; t <= 200; ++t) {
          indexed += t / pool;
          selected += std::min(t / pool, topk / pool) * pool + (tail ? t % pool : 0);
          EXPECT_EQ(indexed_pairs(t, pool), indexed) << t;
          EXPECT_EQ(selected_pairs(t, a), selected) << t << " tokens, pools of " << pool << ", top " << topk;
        }
      }
}

TEST(PlanFlops, SparseAttentionMatchesThePublishedTable) {
  const struct {
    int64_t tokens;
    double indexer, forward, backward;  // TFLOP of one layer
  } rows[] = {{8192, 0.07, 1.93, 4.81}, {32768, 1.10, 8.53, 21.3}, {131072, 17.6, 34.9, 87.3}, {1048576, 1126, 282, 704}};
  for (const auto& row : rows) {
    const Request r = glm(row.tokens);
    EXPECT_NEAR(forward_of(r, "indexer") / 11 / 1e12, row.indexer, 0.02 * row.indexer) << row.tokens;
    EXPECT_NEAR(forward_of(r, "sparse attention") / 11 / 1e12, row.forward, 0.01 * row.forward) << row.tokens;
    for (const auto& c : plan_flops(r))
      if (std::string(c.component) == "sparse attention") {
        EXPECT_NEAR(c.backward / 11 / 1e12, row.backward, 0.01 * row.backward) << row.tokens;
      }
  }
}

TEST(PlanFlops, DenseModelsCostSixPerParameterAndToken) {
  const Request r = dense("llama3_8b", 256);
  double projections = 0;
  for (const auto& c : plan_flops(r))
    if (c.kernel == Kernel::Gemm) projections += c.forward + c.backward;
  const ParameterCounts p = count_parameters(r.model);
  EXPECT_NEAR(projections / (6.0 * 256 * static_cast<double>(p.trunk + p.head)), 1, 1e-4);  // norms are no products
}

TEST(PlanFlops, FullRecomputeAddsOneForwardOfTheLayers) {
  Request r = dense("llama3_8b", 8192);
  for (const auto& c : plan_flops(r)) EXPECT_EQ(c.recompute, std::string(c.component) == "head" ? 0 : c.forward) << c.component;
  r.techniques.recompute = Recompute::None;
  EXPECT_EQ(total_flops(plan_flops(r)), model_flops(plan_flops(r)));
  r.techniques.mlp_pieces = 4;
  EXPECT_GT(total_flops(plan_flops(r)), model_flops(plan_flops(r)));
}

TEST(PlanFlops, AnUnshardedIndexerIsRepeatedOnEveryTensorParallelRank) {
  Request r = glm(1 << 20);
  const double sharded = forward_of(r, "indexer");
  r.techniques.index_sharded = false;
  EXPECT_DOUBLE_EQ(forward_of(r, "indexer"), 8 * sharded);
}

TEST(PlanTime, TermsAddUpToTheStep) {
  Request piped = dense("llama3_8b", 65536, {.tp = 2, .dp = 2, .pp = 4});
  piped.micro_batches = 8;
  for (const Request& r : {glm(1 << 20, 8, 2), piped}) {
    const TimePlan t = plan_time(r);
    double sum = 0;
    for (const auto& term : t.terms) {
      sum += term.seconds;
      EXPECT_LE(term.seconds, term.busy * (1 + 1e-12)) << term.name;
    }
    EXPECT_NEAR(sum, t.step, 1e-9 * t.step);
    EXPECT_NEAR(t.compute + t.exposed + t.bubble, t.step, 1e-12 * t.step);
    EXPECT_GT(t.mfu, 0);
    EXPECT_LT(t.mfu, 1);
  }
}

TEST(PlanTime, SlowerNetworksAndUnevenExpertsCost) {
  Request r = glm(1 << 20, 8, 2);
  const double before = plan_time(r).step;
  r.gpu.network.value /= 10;
  const double slow = plan_time(r).step;
  EXPECT_GT(slow, before);
  r.techniques.imbalance = 4;
  EXPECT_GT(plan_time(r).step, slow);
}

TEST(PlanTime, ZigZagBalancesARing) {
  Request r = dense("llama3_8b", 1 << 20, {.cp = 8});
  const double balanced = plan_time(r).step;
  r.scheme = Scheme::Ring;
  EXPECT_NEAR(attention_imbalance(r), 2 - 1.0 / 8, 1e-3);
  EXPECT_GT(plan_time(r).step, 1.5 * balanced);  // attention is most of the step at this length
}

TEST(PlanTime, TheBubbleIsOneLessThanTheStages) {
  Request r = dense("llama3_8b", 8192, {.pp = 8});
  r.micro_batches = 32;
  const TimePlan t = plan_time(r);
  EXPECT_NEAR(t.bubble / (t.compute + t.exposed), 7.0 / 32, 1e-12);
}

}  // namespace
}  // namespace megatoken::plan
