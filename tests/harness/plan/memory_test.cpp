// Properties that any memory plan must have, and closed forms it must reproduce.
#include "harness/plan/memory.hpp"

#include "harness/plan/layers.hpp"
#include "harness/plan/study.hpp"
#include "reference/model/parameters.hpp"
#include "tests/harness/plan/requests.hpp"

namespace megatoken::plan {
namespace {

constexpr int64_t kKi = 1024;

int64_t peak(const Request& r) {
  EXPECT_EQ(why_invalid(r), "");
  return plan_memory(r).peak;
}

std::vector<Request> samples() {
  std::vector<Request> all{glm(128 * kKi), glm(128 * kKi, 4, 2), dense("llama3_8b", 64 * kKi, {.cp = 8}), dense("qwen3x_27b", 64 * kKi, {.tp = 4, .dp = 2})};
  const size_t count = all.size();
  for (size_t i = 0; i < count; ++i)
    for (Recompute recompute : {Recompute::None, Recompute::Selective}) {
      all.push_back(all[i]);
      all.back().techniques.recompute = recompute;
    }
  for (size_t i = 0; i < count; ++i) {
    all.push_back(all[i]);
    all.back().techniques.offload = Offload::Inputs;
    all.back().techniques.query_chunk = 64 * kKi;
    all.back().techniques.expert_pieces = all.back().techniques.mlp_pieces = 8;
    all.back().techniques.loss_rows = 0;
  }
  return all;
}

TEST(PlanMemory, CategoriesAddUpToThePeakAndThePeakIsOnTheTimeline) {
  for (const Request& r : samples()) {
    const MemoryPlan m = plan_memory(r);
    int64_t sum = 0, highest = 0;
    for (int64_t bytes : m.categories) sum += bytes;
    for (const auto& moment : m.timeline) highest = std::max(highest, moment.bytes);
    EXPECT_EQ(sum, m.peak) << describe_layout(r);
    EXPECT_EQ(highest, m.peak) << describe_layout(r);
    EXPECT_EQ(m.timeline.size(), 2 * r.model.layers.size() + 1);
    for (int i = 0; i < kCategories; ++i) EXPECT_GE(m.largest[i], m.categories[i]);
  }
}

TEST(PlanMemory, MoreTokensNeverNeedLess) {
  for (Request r : samples()) {
    int64_t before = 0;
    for (r.tokens = 2 * kKi; r.tokens <= 2048 * kKi; r.tokens += r.tokens / 2) {
      r.tokens -= r.tokens % 128;
      const int64_t now = peak(r);
      EXPECT_GE(now, before) << r.tokens << " tokens, " << describe_layout(r);
      before = now;
    }
  }
}

TEST(PlanMemory, MoreShardingNeverNeedsMore) {
  for (const Request& r : samples()) {
    Request more = r;
    for (more.techniques.zero = 1; more.techniques.zero < 3;) {
      const int64_t before = plan_memory(more).categories[0] + plan_memory(more).categories[1] + plan_memory(more).categories[2];
      ++more.techniques.zero;
      const MemoryPlan after = plan_memory(more);
      EXPECT_LE(after.categories[0] + after.categories[1] + after.categories[2], before) << describe_layout(more);
    }
    Request wide = r;
    wide.layout.cp *= 2;  // twice the GPUs, the sequence cut finer
    if (why_invalid(wide).empty()) {
      EXPECT_LE(peak(wide), peak(r)) << describe_layout(r);
    }
    Request tall = r;
    tall.layout.tp *= 2;
    if (why_invalid(tall).empty()) {
      EXPECT_LE(peak(tall), peak(r)) << describe_layout(r);
    }
  }
}

TEST(PlanMemory, RecomputeAndOffloadNeverNeedMore) {
  for (Request r : {glm(256 * kKi), dense("llama3_8b", 64 * kKi, {.cp = 4})}) {
    std::vector<int64_t> peaks;
    for (Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      r.techniques.recompute = recompute;
      peaks.push_back(peak(r));
    }
    r.techniques.offload = Offload::Inputs;
    peaks.push_back(peak(r));
    EXPECT_LE(peaks[1], peaks[0]);  // a fused attention core keeps nothing that its neighbours do not keep too
    EXPECT_LT(peaks[2], peaks[1]);
    EXPECT_LT(peaks[3], peaks[2]);
  }
}

TEST(PlanMemory, EachFixOfALongRunSavesMemory) {
  Request bad = glm(256 * kKi);
  bad.techniques.sparse_kernel = SparseKernel::Dense;
  bad.techniques.index_elements = 0;
  bad.techniques.index_sharded = false;
  bad.techniques.hyper_keeps_fp32 = bad.techniques.combine_fp32 = bad.techniques.router_leak = true;
  const auto fixed = [&](auto change) {
    Request r = bad;
    change(r);
    return peak(r);
  };
  const int64_t before = peak(bad);
  EXPECT_LT(fixed([](Request& r) { r.techniques.sparse_kernel = SparseKernel::Fused; }), before);
  EXPECT_LT(fixed([](Request& r) { r.techniques.router_leak = false; }), before);
  bad.techniques.sparse_kernel = SparseKernel::Fused;
  EXPECT_LT(fixed([](Request& r) { r.techniques.index_elements = 1 << 29; }), peak(bad));
  bad.techniques.index_elements = 1 << 29;
  const int64_t fused = peak(bad);
  EXPECT_LT(fixed([](Request& r) { r.techniques.hyper_keeps_fp32 = false; }), fused);
  EXPECT_LT(fixed([](Request& r) { r.techniques.combine_fp32 = false; }), fused);
  EXPECT_LT(fixed([](Request& r) { r.techniques.expert_pieces = 8; }), fused);
  EXPECT_GT(fixed([](Request& r) { r.techniques.imbalance = 4; }), fused);
}

TEST(PlanMemory, PaperModeReproducesTheClosedFormulas) {
  Request r = dense("qwen3x_27b", 4096, {.tp = 8});
  r.bookkeeping.activations = Activations::Paper;
  r.techniques.recompute = Recompute::Selective;
  const auto kept = [&] { return plan_memory(r).largest[static_cast<size_t>(Category::Inputs)]; };
  EXPECT_EQ(kept(), 5704253440);  // 34·t·c·L/8
  r.bookkeeping.activations = Activations::Swiglu;
  EXPECT_EQ(kept(), 64 * swiglu_layer_bytes(1, 4096, 5120, 17408, 8));
  r.layout.tp = 1;
  r.bookkeeping.activations = Activations::Paper;
  r.techniques.recompute = Recompute::Full;
  r.tokens = 131072;
  EXPECT_EQ(kept(), 85899345920);  // 2·t·c·L
}

TEST(PlanMemory, WeightsGradientsAndOptimizerFollowZero) {
  Request r = dense("llama3_8b", 8192, {.dp = 8});
  r.techniques.gradient_bytes = 2;
  const int64_t p = count_parameters(r.model).text();
  for (int stage = 0; stage <= 3; ++stage) {
    r.techniques.zero = stage;
    const MemoryPlan m = plan_memory(r);
    EXPECT_NEAR(static_cast<double>(m.categories[0] + m.categories[1] + m.categories[2]), static_cast<double>(zero_state_bytes(p, stage, 8)), 64) << stage;
  }
  r.techniques.optimizer = OptimizerPlace::Host;
  r.techniques.weights_on_host = true;
  const MemoryPlan m = plan_memory(r);
  EXPECT_EQ(m.categories[0] + m.categories[1] + m.categories[2], 0);
  EXPECT_NEAR(static_cast<double>(m.host), static_cast<double>(zero_state_bytes(p, 3, 8)), 64);
}

TEST(PlanMemory, RankParametersCoverTheModelOnce) {
  Request r = glm(1 << 20);
  const RankParameters p = rank_parameters(r, 0);
  const ParameterCounts all = count_parameters(r.model);
  EXPECT_EQ(p.experts * 64, all.routed);
  EXPECT_GT(p.dense * 8, all.text() - all.routed);  // blocks that every rank holds whole
  r.layout = {};
  EXPECT_EQ(rank_parameters(r, 0).total(), all.text());
  r.layout.pp = 3;
  int64_t stages = 0;
  for (int64_t stage = 0; stage < 3; ++stage) stages += rank_parameters(r, stage).total();
  EXPECT_EQ(stages, all.text());
}

TEST(PlanMemory, PipelinesKeepAMicroBatchPerStageAhead) {
  Request r = dense("llama3_8b", 16 * kKi, {.pp = 4});
  r.micro_batches = 1;
  const int64_t one = plan_memory(r).largest[static_cast<size_t>(Category::Inputs)];
  r.micro_batches = 8;
  const MemoryPlan many = plan_memory(r);
  EXPECT_GT(many.peak, plan_memory(dense("llama3_8b", 16 * kKi, {.pp = 4})).peak);
  EXPECT_EQ(many.largest[static_cast<size_t>(Category::Inputs)], 4 * one);
}

TEST(PlanMemory, HostMemoryHoldsOffloadedInputsAndRoundsThemWhenTold) {
  Request r = glm(576 * kKi);
  r.techniques.offload = Offload::Inputs;
  EXPECT_EQ(plan_memory(r).host_inputs, 45 * layer_input_bytes(r));
  r.techniques.pinned_power_of_two = true;
  EXPECT_EQ(plan_memory(r).host_inputs, 45 * (int64_t{4} << 30));
  r.layout = {.dp = 1};
  r.model = load_model_config("llama3_8b");
  EXPECT_EQ(plan_memory(r).host_capacity, static_cast<int64_t>(r.gpu.host_memory.value));  // one GPU has the host to itself
}

}  // namespace
}  // namespace megatoken::plan
