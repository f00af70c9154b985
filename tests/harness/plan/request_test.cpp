// Every rule of a request: what breaks it, and which valid choice is named.
#include "harness/plan/request.hpp"

#include "tests/harness/plan/requests.hpp"

namespace megatoken::plan {
namespace {

std::string complaint(const Request& r) { return why_invalid(r); }

TEST(PlanRequest, PublishedLayoutsAreValid) {
  EXPECT_EQ(complaint(glm(1 << 20, 8, 2)), "");
  EXPECT_EQ(complaint(glm(1 << 19, 8, 1)), "");
  EXPECT_EQ(complaint(dense("llama3_8b", 3700000, {.cp = 8})), "");
}

TEST(PlanRequest, SizesThatDoNotDivideNameTheNearestThatDo) {
  Request r = glm(1 << 20);
  r.layout = {.tp = 6, .dp = 1};
  EXPECT_PRED2(holds, complaint(r), "--tp 6 must divide the 154880 rows of the vocabulary; the nearest that divides everything is 4");
  r = glm(1 << 20);
  r.layout.ep = 7;
  EXPECT_PRED2(holds, complaint(r), "--ep 7 must divide the 288 experts; the nearest is 6");
  r.layout.ep = 48;
  EXPECT_PRED2(holds, complaint(r), "--ep 48 times --etp 2 must divide the 64 ranks of a stage (tp·cp·dp); the nearest --ep is 32");
  r = glm(1 << 20);
  r.layout.etp = 3;
  EXPECT_PRED2(holds, complaint(r), "--etp 3 must divide the 2048 columns of an expert; the nearest is 2");
  r = glm(1 << 20);
  r.layout.pp = 4;
  EXPECT_PRED2(holds, complaint(r), "--pp 4 must divide the 45 layers; the nearest is 3");
  r = glm(1000001, 8, 2);
  EXPECT_PRED2(holds, complaint(r), "--tokens 1000001 must be a multiple of 16 (cp 2 in two chunks each, tp 8); the nearest is 1000000");
  r = glm(1 << 20, 8, 2);
  r.layout.cp = 16;
  EXPECT_PRED2(holds, complaint(r), "--cp 16 must divide the 8 recurrent heads of a rank; the nearest is 8, or use --delta-exchange state");
  r.delta_exchange = DeltaExchange::State;
  EXPECT_EQ(complaint(r), "");
}

TEST(PlanRequest, HeadsLimitAllToAlls) {
  Request r = dense("qwen3x_27b", 1 << 20, {.cp = 16});
  r.scheme = Scheme::Ulysses;
  EXPECT_PRED2(holds, complaint(r), "16 ranks of an all-to-all must divide the 24 query heads of a rank; the nearest is 12");
  r.layout.cp = 6;
  r.tokens = 6 * 1000;
  EXPECT_PRED2(holds, complaint(r), "the 4 key/value heads of a rank: one must divide the other; the nearest is 4");
  r.layout.cp = 8;
  r.scheme = Scheme::Usp;
  r.tokens = 1 << 20;
  r.layout.ulysses = 3;
  EXPECT_PRED2(holds, complaint(r), "--ulysses 3 must divide the 8 context-parallel ranks; the nearest is 2");
  r.layout.ulysses = 0;
  EXPECT_EQ(r.ulysses_ranks(), 4);  // as many as there are key/value heads
  EXPECT_EQ(complaint(r), "");
}

TEST(PlanRequest, AbsurdValuesNameTheNearestInRange) {
  const auto with = [](auto change) {
    Request r = glm(1 << 20);
    change(r);
    return complaint(r);
  };
  EXPECT_PRED2(holds, with([](Request& r) { r.tokens = 0; }), "--tokens 0 must lie between 1 and 4294967296; the nearest is 1");
  EXPECT_PRED2(holds, with([](Request& r) { r.layout.tp = -8; }), "--tp -8 must lie between 1");
  EXPECT_PRED2(holds, with([](Request& r) { r.techniques.zero = 4; }), "--zero 4 must lie between 0 and 3; the nearest is 3");
  EXPECT_PRED2(holds, with([](Request& r) { r.techniques.gradient_bytes = 3; }), "must be 2 or 4");
  EXPECT_PRED2(holds, with([](Request& r) { r.bookkeeping.wire_gradient_bytes = 8; }), "must be 2 or 4; the nearest is 4");
  EXPECT_PRED2(holds, with([](Request& r) { r.techniques.imbalance = 0.5; }), "--imbalance 0.5");
  EXPECT_PRED2(holds, with([](Request& r) { r.techniques.working_set_factor = 0; }), "--working-set-factor");
  EXPECT_PRED2(holds, with([](Request& r) { r.techniques.expert_pieces = 0; }), "--expert-pieces 0 must lie between 1");
}

TEST(PlanRequest, TechniquesThatNeedEachOther) {
  Request r = glm(1 << 20);
  r.techniques.recompute = Recompute::None;
  r.techniques.offload = Offload::Inputs;
  EXPECT_PRED2(holds, complaint(r), "the nearest is --recompute full");
  r = glm(1 << 20);
  r.techniques.weights_on_host = true;
  EXPECT_PRED2(holds, complaint(r), "the nearest is --zero 3");
  r = dense("llama3_8b", 555000);
  r.techniques.int32_kernels = true;
  EXPECT_PRED2(holds, complaint(r), "reach 2^31 elements; the nearest --tokens is 524287");
  r.tokens = 524287;
  EXPECT_EQ(complaint(r), "");
}

TEST(PlanRequest, ModelsWithoutExpertsHaveNoExpertRanks) {
  Request r = dense("llama3_8b", 8192, {.dp = 8, .ep = 8});
  EXPECT_PRED2(holds, complaint(r), "has no experts; the nearest is --ep 1 --etp 1");
}

TEST(PlanRequest, BrokenRulesAreUsageErrors) {
  Request r = glm(1 << 20);
  r.layout.ep = 7;
  EXPECT_PRED2(holds, usage_error([&] { check_request(r); }), "--ep 7");
  EXPECT_PRED2(holds, usage_error([] { parse_choice<Recompute>("--recompute", "ful"); }), "unknown --recompute 'ful'; did you mean full?");
  EXPECT_EQ(parse_choice<Scheme>("--scheme", "usp"), Scheme::Usp);
  EXPECT_EQ(name_of_choice(TensorParallel::Nominal), "nominal");
}

}  // namespace
}  // namespace megatoken::plan
