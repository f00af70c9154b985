// Plans as text, JSON and rows of a result file.
#include "harness/plan/output.hpp"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "harness/cli/verb.hpp"
#include "harness/plan/text.hpp"
#include "harness/store/result_file.hpp"
#include "tests/harness/plan/requests.hpp"

namespace megatoken::plan {
namespace {

/// Runs `megatoken plan` in this process and returns what it prints.
struct Printed {
  int code = -1;
  std::string out;
};
Printed run_verb(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::streambuf* before = std::cout.rdbuf(out.rdbuf());
  Printed printed;
  try {
    printed.code = Registry<Verb>::instance().find("plan")->run(arguments);
  } catch (...) {
    std::cout.rdbuf(before);
    throw;
  }
  std::cout.rdbuf(before);
  printed.out = out.str();
  return printed;
}

const std::vector<std::string> kExample{"--tokens", "1M",  "--gpus", "64",      "--gpu",       "b200", "--tp",      "8",      "--cp",        "2",   "--ep",
                                        "32",       "--etp", "2",    "--dp",    "4",           "--recompute", "full", "--offload", "inputs", "--optimizer", "host"};

TEST(PlanText, TablesAreAligned) {
  EXPECT_EQ(align_table({"name", "bytes", "note"}, {{"a", "1.0 GiB", "×"}, {"longer", "22.5 GiB", ""}}),
            "  name       bytes  note\n"
            "  a        1.0 GiB  ×\n"
            "  longer  22.5 GiB\n");
}

TEST(PlanText, AnswersEveryQuestionOfAPlan) {
  const Printed p = run_verb(kExample);
  EXPECT_EQ(p.code, kPassed);
  for (const char* part : {"glm53_flash on 64 B200, 1Mi tokens", "weights", "grads", "optimizer", "activations", "workspace", "logits", "comm", "peak:", "fits", "host memory per GPU",
                           "fattest layer (sparse_attention, experts)", "indexer", "traffic sent by one GPU", "over the network, ", "context parallel", "network", "time of a step", "exposed communication",
                           "longest sequence that fits this layout"})
    EXPECT_PRED2(holds, p.out, part);
  EXPECT_EQ(p.out.find("cheapest change"), std::string::npos);
}

TEST(PlanText, OffersTheCheapestChangeOnlyWhenNeeded) {
  EXPECT_PRED2(holds, run_verb({"--tokens", "1M", "--gpus", "64", "--tp", "8", "--ep", "32", "--etp", "2"}).out, "cheapest change that makes it fit: ");
}

TEST(PlanText, TimelineListsEveryLayerTwice) {
  const std::string out = run_verb({"--tokens", "128Ki", "--gpus", "64", "--tp", "8", "--ep", "32", "--etp", "2", "--timeline"}).out;
  EXPECT_PRED2(holds, out, "forward of layer 0 (kda, dense)");
  EXPECT_PRED2(holds, out, "backward of layer 44 (kda, experts)");
}

TEST(PlanVerb, GoldensAndPublishedAndStudiesArePrinted) {
  EXPECT_PRED2(holds, run_verb({"--goldens"}).out, "27,781,427,952");
  EXPECT_PRED2(holds, run_verb({"--published"}).out, "fully stated: ");
  EXPECT_PRED2(holds, run_verb({"--study", "bubbles"}).out, "ZB-H1");
  const std::string all = run_verb({"--model", "glm53_flash", "--study", "all"}).out;  // without those that need softmax attention
  EXPECT_PRED2(holds, all, "zero_state");
  EXPECT_EQ(all.find("crossover"), std::string::npos);
  EXPECT_PRED2(holds, run_verb({"--describe-gpu", "--gpu", "h200"}).out, "measured: cuBLAS");
  EXPECT_PRED2(holds, run_verb({"--fit", "--gpus", "64", "--tokens", "256Ki"}).out, "tokens/s");
}

TEST(PlanVerb, BadInputIsAUsageErrorWithTheNearestChoice) {
  const auto refused = [](std::vector<std::string> arguments) { return usage_error([&] { run_verb(arguments); }); };
  EXPECT_PRED2(holds, refused({"--gpus", "7", "--tp", "2"}), "the nearest --gpus is 8");
  EXPECT_PRED2(holds, refused({"--gpus", "64", "--dp", "3"}), "the nearest --gpus is 3");
  EXPECT_PRED2(holds, refused({"--tokens", "-5"}), "whole number that is not negative");
  EXPECT_PRED2(holds, refused({"--tokens", "1.5"}), "whole number");
  EXPECT_PRED2(holds, refused({"--tp", "0"}), "--tp 0 must be at least 1");
  EXPECT_PRED2(holds, refused({"--model", "glm53"}), "glm53_flash");
  EXPECT_PRED2(holds, refused({"--gpu", "b20"}), "b200");
  EXPECT_PRED2(holds, refused({"--fit"}), "needs --gpus");
  EXPECT_PRED2(holds, refused({"--fit", "--gpus", "64", "--tp", "8"}), "chooses tp, cp, dp, pp, ep and etp itself");
  EXPECT_PRED2(holds, refused({"--tokes", "1M"}), "--tokens");
  EXPECT_PRED2(holds, refused({"--study", "zero"}), "zero_state");
}

TEST(PlanJson, HoldsWhatTheTextHolds) {
  auto arguments = kExample;
  arguments.push_back("--json");
  const auto json = nlohmann::json::parse(run_verb(arguments).out);
  const auto& plan = json.at("plans").at(0);
  const MemoryPlan memory = [] {
    Request r = glm(1 << 20, 8, 2);
    r.techniques.offload = Offload::Inputs;
    r.techniques.optimizer = OptimizerPlace::Host;
    return plan_memory(r);
  }();
  EXPECT_EQ(plan.at("memory").at("peak").get<int64_t>(), memory.peak);
  EXPECT_EQ(plan.at("memory").at("where"), memory.where);
  int64_t sum = 0;
  for (const auto& [name, bytes] : plan.at("memory").at("categories").items()) sum += bytes.get<int64_t>();
  EXPECT_EQ(sum, memory.peak);
  EXPECT_EQ(plan.at("request").at("gpus"), 64);
  EXPECT_GT(plan.at("longest").get<int64_t>(), 1 << 20);
  EXPECT_EQ(nlohmann::json::parse(run_verb({"--goldens", "--json"}).out).at("goldens").size(), run_goldens().size());
}

TEST(PlanRows, FillTheTablesOfTheResultFile) {
  const std::string path = (std::filesystem::temp_directory_path() / "megatoken_plan_rows_test.h5").string();
  std::filesystem::remove(path);
  auto arguments = kExample;
  for (const char* more : {"-o", path.c_str()}) arguments.push_back(more);
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_verb(arguments).code, kPassed);
  EXPECT_PRED2(holds, testing::internal::GetCapturedStderr(), path);
  const ResultReader reader(path);
  const Table& memory = reader.table("plan_memory");
  int64_t sum = 0, planned = 0;
  for (int64_t row = 0; row < memory.rows(); ++row)
    if (memory.ints("tokens")[row] == 1 << 20 && memory.strings("category")[row] != "host") sum += memory.ints("bytes")[row], ++planned;
  Request r = glm(1 << 20, 8, 2);
  r.techniques.offload = Offload::Inputs;
  r.techniques.optimizer = OptimizerPlace::Host;
  EXPECT_EQ(sum, plan_memory(r).peak);
  EXPECT_EQ(planned, kCategories);
  std::set<int64_t> degrees;
  for (int64_t cp : reader.table("plan_time").ints("cp")) degrees.insert(cp);
  EXPECT_EQ(degrees, (std::set<int64_t>{1, 2, 4, 8}));
  std::filesystem::remove(path);

  testing::internal::CaptureStderr();
  EXPECT_EQ(run_verb({"--goldens", "--published", "--ablation", "--study", "bubbles", "-o", path}).code, kPassed);
  testing::internal::GetCapturedStderr();
  const ResultReader tables(path);
  EXPECT_EQ(tables.table("plan_golden").rows(), static_cast<int64_t>(run_goldens().size()));
  for (int64_t ok : tables.table("plan_golden").ints("ok")) EXPECT_EQ(ok, 1);
  EXPECT_EQ(tables.table("plan_published").rows(), static_cast<int64_t>(run_published().size()));
  EXPECT_GT(tables.table("plan_longest").rows(), 0);
  EXPECT_GT(tables.table("plan_study").rows(), 0);
  EXPECT_EQ(tables.table("plan_memory").rows(), 0);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace megatoken::plan
