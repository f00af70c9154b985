// The plan's traffic against the formulas of reference/schemes and the published sums.
#include "harness/plan/traffic.hpp"

#include "reference/schemes/traffic.hpp"
#include "tests/harness/plan/requests.hpp"

namespace megatoken::plan {
namespace {

int64_t sum(const Request& r, const std::string& purpose) {
  int64_t bytes = 0;
  for (const auto& term : plan_traffic(r))
    if (term.purpose == purpose) bytes += term.total();
  return bytes;
}

Request anchor(Layout layout, int64_t tokens = 131072) {
  Request r = dense("qwen3x_27b", tokens, layout);
  r.techniques.recompute = Recompute::None;
  return r;
}

TEST(PlanTraffic, TensorParallelismSendsTheGoldenBytes) {
  Request r = anchor({.tp = 8}, 4096);
  r.model.layers.assign(64, {Mixer::GatedDelta, Mlp::Dense});
  EXPECT_EQ(sum(r, "tensor parallel"), 23488102400);
  r.bookkeeping.tensor_parallel = TensorParallel::Nominal;
  EXPECT_EQ(sum(r, "tensor parallel"), 18790481920);
  r.bookkeeping.tensor_parallel = TensorParallel::AllReduce;
  EXPECT_EQ(sum(r, "tensor parallel"), 18790481920);
}

TEST(PlanTraffic, AttentionSchemesFollowTheReferenceFormulas) {
  const AttentionTraffic wire{1, 131072 / 8, 24, 4, 256, 2, 4};
  Request r = anchor({.cp = 8});
  const auto bytes = [&] { return DirectionBytes{attention_scheme_bytes(r).forward, attention_scheme_bytes(r).backward}; };
  EXPECT_EQ(bytes(), ring_bytes(wire, 8));
  EXPECT_EQ(bytes().forward, 469762048);
  r.bookkeeping.ring_backward = RingBackward::SameDirection;
  EXPECT_EQ(bytes().backward, 1543503872);
  r.scheme = Scheme::AllGather;
  EXPECT_EQ(bytes(), all_gather_kv_bytes(wire, 8));
  r.scheme = Scheme::Ulysses;
  EXPECT_EQ(bytes().forward, 469762048);
  r.bookkeeping.replicate_kv = false;
  EXPECT_EQ(bytes().forward, 411041792);
  r.bookkeeping = {};
  r.scheme = Scheme::Usp;
  EXPECT_EQ(bytes().forward, 419430400);
  r.bookkeeping.wire_gradient_bytes = 2;
  EXPECT_EQ(bytes().backward, 419430400 + 67108864);
}

TEST(PlanTraffic, UspWithOneSideOfOneIsRingOrUlysses) {
  for (int64_t cp : {2, 4, 8}) {
    Request usp = anchor({.cp = cp}), ring = usp, ulysses = usp;
    usp.scheme = Scheme::Usp;
    ring.scheme = Scheme::Zigzag;
    ulysses.scheme = Scheme::Ulysses;
    usp.layout.ulysses = 1;
    EXPECT_EQ(attention_scheme_bytes(usp).forward, attention_scheme_bytes(ring).forward);
    EXPECT_EQ(attention_scheme_bytes(usp).backward, attention_scheme_bytes(ring).backward);
    usp.layout.ulysses = cp;
    EXPECT_EQ(attention_scheme_bytes(usp).forward, attention_scheme_bytes(ulysses).forward);
    EXPECT_EQ(attention_scheme_bytes(usp).backward, attention_scheme_bytes(ulysses).backward);
  }
}

TEST(PlanTraffic, HiddenRowsAreAFifthOfWhatIsProjectedFromThem) {
  const Request r = glm(1 << 20, 8, 2);
  const double ratio = static_cast<double>(delta_exchange_bytes(r, DeltaExchange::Projections)) / static_cast<double>(delta_exchange_bytes(r, DeltaExchange::Hidden));
  EXPECT_NEAR(ratio, 5, 0.01);
  Request twice = r;
  twice.tokens *= 2;
  EXPECT_EQ(delta_exchange_bytes(twice, DeltaExchange::Hidden), 2 * delta_exchange_bytes(r, DeltaExchange::Hidden));
  EXPECT_EQ(delta_exchange_bytes(twice, DeltaExchange::State), delta_exchange_bytes(r, DeltaExchange::State));
}

TEST(PlanTraffic, ExpertRowsSplitBetweenLinkAndNetwork) {
  const Request r = glm(1 << 20);
  int64_t near = 0, far = 0;
  for (const auto& term : plan_traffic(r))
    if (term.purpose == "experts") (term.link == Link::Domain ? near : far) += term.forward;
  const int64_t all = 2 * expert_dispatch_bytes(r.rows(), 8, 32, 4096, 2);  // dispatch and combine
  EXPECT_EQ(near + far, all);
  EXPECT_NEAR(static_cast<double>(far) / static_cast<double>(all), 28.0 / 31, 1e-9);  // 4 of the 32 expert ranks share a node
}

TEST(PlanTraffic, RecomputeRepeatsForwardCollectives) {
  Request r = glm(1 << 20, 8, 2);
  for (const auto& term : plan_traffic(r)) EXPECT_EQ(term.recompute, term.layer == "step" ? 0 : term.forward) << term.purpose << " " << term.layer;
  r.techniques.recompute = Recompute::None;
  for (const auto& term : plan_traffic(r)) EXPECT_EQ(term.recompute, 0) << term.purpose << " " << term.layer;
}

TEST(PlanTraffic, Zero3SendsHalfAgainAsMuchAsDataParallelism) {
  Request r = anchor({.dp = 8});
  r.techniques.gradient_bytes = 2;
  r.techniques.zero = 0;
  const double plain = static_cast<double>(sum(r, "gradients") + sum(r, "weights"));
  r.techniques.zero = 1;
  EXPECT_NEAR(static_cast<double>(sum(r, "gradients") + sum(r, "weights")), plain, 8);
  r.techniques.zero = 3;
  EXPECT_NEAR(static_cast<double>(sum(r, "gradients") + sum(r, "weights")) / plain, 1.5, 1e-9);
}

TEST(PlanTraffic, APipelineStageSendsForItsOwnLayers) {
  const int64_t whole = sum(anchor({.tp = 2}), "tensor parallel"), stage = sum(anchor({.tp = 2, .pp = 4}), "tensor parallel");
  EXPECT_EQ(4 * stage, whole);
  EXPECT_EQ(sum(anchor({.pp = 4}), "stages"), int64_t{2} * 131072 * 5120 * 2);
}

TEST(PlanTraffic, OneGpuSendsNothing) {
  for (const auto& term : plan_traffic(anchor({}))) ADD_FAILURE() << term.purpose << " " << term.layer << " " << term.total();
}

TEST(PlanTraffic, OffloadMovesEveryInputOutAndIn) {
  Request r = glm(1 << 20);
  r.techniques.offload = Offload::Inputs;
  EXPECT_EQ(sum(r, "offload"), 2 * 45 * (int64_t{4} << 30));
}

}  // namespace
}  // namespace megatoken::plan
