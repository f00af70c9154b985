// Searches: what is returned is valid, fits and is ordered; the longest sequence is the longest; the change makes the plan fit.
#include "harness/plan/plan.hpp"

#include "harness/plan/study.hpp"
#include "tests/harness/plan/requests.hpp"

namespace megatoken::plan {
namespace {

TEST(PlanSearch, PlansFitAndAreOrderedBySpeed) {
  for (Request r : {glm(1 << 20), dense("qwen3x_27b", 1 << 19)}) {
    const SearchResult result = search_layouts(r, {.gpus = 64, .keep = 5});
    ASSERT_EQ(result.best.size(), 5u) << r.model.name;
    EXPECT_GT(result.considered, result.fitting);
    for (size_t i = 0; i < result.best.size(); ++i) {
      const Plan& plan = result.best[i];
      EXPECT_EQ(why_invalid(plan.request), "");
      EXPECT_TRUE(plan.memory.fits());
      EXPECT_EQ(plan.request.layout.gpus(), 64);
      EXPECT_GE(plan.longest, plan.request.tokens);
      if (i > 0) {
        EXPECT_LE(plan.time.tokens_per_second, result.best[i - 1].time.tokens_per_second);
      }
    }
  }
}

TEST(PlanSearch, SaysWhatComesNearestWhenNothingFits) {
  const SearchResult result = search_layouts(glm(1 << 20), {.gpus = 4});
  EXPECT_TRUE(result.best.empty());
  ASSERT_TRUE(result.nearest);
  EXPECT_FALSE(result.nearest->memory.fits());
}

TEST(PlanSearch, PipelineStagesAreTriedWhenAllowed) {
  const auto count = [](int64_t max_pp) { return search_layouts(dense("llama3_8b", 65536), {.gpus = 8, .max_pp = max_pp}).considered; };
  EXPECT_GT(count(4), count(1));
}

TEST(PlanLongest, FitsAndOneUnitMoreDoesNot) {
  for (Request r : {glm(1 << 18), dense("llama3_8b", 1 << 16, {.cp = 4}), dense("qwen3x_27b", 1 << 16, {.tp = 4, .cp = 2})}) {
    r.tokens = longest_sequence(r);
    ASSERT_GT(r.tokens, 0) << r.model.name;
    EXPECT_TRUE(plan_memory(r).fits());
    r.tokens += r.layout.cp * r.layout.tp * 2;
    ASSERT_EQ(why_invalid(r), "");
    EXPECT_FALSE(plan_memory(r).fits()) << r.model.name;
  }
}

TEST(PlanLongest, IsNothingWhereTheWeightsAloneAreTooMuch) {
  Request r = glm(1 << 20);
  r.layout = {.dp = 1};
  EXPECT_EQ(longest_sequence(r), 0);
}

TEST(PlanLongest, HostMemoryIsALimitToo) {
  Request r = dense("llama3_8b", 1 << 16, {.cp = 8});
  r.techniques.zero = 3;
  r.techniques.mlp_pieces = 64;
  r.techniques.offload = Offload::Inputs;
  const int64_t before = longest_sequence(r);
  r.gpu.host_memory.value /= 4;
  EXPECT_LT(longest_sequence(r), before);
}

TEST(PlanChange, MakesThePlanFit) {
  for (const Request& r : {glm(1 << 20), glm(1 << 19, 8, 1), dense("llama3_8b", 1 << 17, {.dp = 8})}) {
    const Plan plan = make_plan(r);
    ASSERT_FALSE(plan.memory.fits());
    ASSERT_TRUE(plan.change) << r.model.name;
    EXPECT_TRUE(plan_memory(plan.change->request).fits()) << plan.change->what;
    EXPECT_FALSE(plan.change->what.empty());
  }
}

TEST(PlanChange, IsNotOfferedWhereThePlanFits) {
  const Plan plan = make_plan(glm(1 << 17));
  EXPECT_TRUE(plan.memory.fits());
  EXPECT_FALSE(plan.change);
}

TEST(PlanChange, PrefersTheOneThatCostsLeast) {
  Request r = glm(1 << 18);
  r.techniques.router_leak = true;  // costs memory and saves nothing: dropping it is free
  const Plan plan = make_plan(r);
  ASSERT_TRUE(plan.change);
  EXPECT_PRED2(holds, plan.change->what, "--router-leak");
  EXPECT_NEAR(plan.change->slowdown, 1, 1e-12);
}

TEST(PlanAblation, EveryDenseTechniqueHelpsOrDoesNoHarm) {
  const auto rows = run_ablation(dense("llama3_8b", 1 << 16));
  int64_t before = 0;
  for (const auto& row : rows) {
    if (row.technique != "baseline") {
      EXPECT_GE(row.tokens, before) << row.technique << " on " << row.gpus;
    }
    before = row.tokens;
  }
  EXPECT_EQ(rows.back().gpus, 64);
}

TEST(PlanAblation, SparseModelsFollowTheReportsOrder) {
  const auto rows = run_ablation(glm(1 << 16));
  std::vector<std::string> techniques;
  int64_t first = 0, last = 0;
  for (const auto& row : rows)
    if (row.gpus == 64) {
      techniques.push_back(row.technique);
      if (row.technique == "baseline") first = row.tokens;
      last = row.tokens;
    }
  ASSERT_GE(techniques.size(), 8u);
  EXPECT_EQ(techniques[1], "+ sparse kernel");
  EXPECT_GT(last, 64 * first);  // the report's headline
}

}  // namespace
}  // namespace megatoken::plan
