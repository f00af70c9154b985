#include "harness/run/case_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "harness/store/tensor_file.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

using testing::HasSubstr;

class CaseFile : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("megatoken_" + std::to_string(::getpid()) + "_" + GetParam());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    write_case(path("case"), test_, {}, true);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / (name + "." + GetParam())).string(); }

  /// What a program that reads the case and gets everything right would write.
  std::map<std::string, Tensor> right_outputs() const {
    std::map<std::string, Tensor> outputs;
    for (const auto& [name, tensor] : read_tensor_file(path("case")).tensors)
      if (name.starts_with("oracle.")) outputs[name.substr(7)] = tensor;
    return outputs;
  }
  CaseReport judged(const std::map<std::string, Tensor>& outputs, const CheckOptions& options = {}) const {
    const std::string file = path("outputs" + std::to_string(files_++));
    write_tensor_file(file, {outputs.begin(), outputs.end()}, {});
    return judge_outputs(path("case"), file, options);
  }

  Case test_ = Case::parse("attention/cpu fwd_bwd bf16 b=2 t=40 h=2 d=8 docs=3 dist=aimed seed=5");
  std::filesystem::path folder_;
  mutable int files_ = 0;
};

TEST_P(CaseFile, HoldsTheCaseInputsAndOracle) {
  const TensorFile file = read_tensor_file(path("case"));
  EXPECT_EQ(file.metadata.at("case"), test_.key());
  EXPECT_EQ(file.metadata.at("component"), "attention");
  EXPECT_THAT(file.metadata.at("axes"), HasSubstr("causal=1"));
  Problem problem(find_component("attention"), test_.axes, DType::BF16);
  problem.fill("aimed", 5);
  for (const char* name : {"q", "k", "v", "do", "q_document"}) EXPECT_EQ(test::relative_rms(file.tensors.at(name), problem[name]), 0) << name;
  EXPECT_EQ(file.tensors.at("q")->dtype, DType::BF16);
  run_variant(find_variant("attention", "cpu"), problem = problem.converted(DType::F64), Phase::Both);
  for (const char* name : {"o", "lse", "dq", "dk", "dv"}) EXPECT_LE(test::relative_rms(file.tensors.at(std::string("oracle.") + name), problem[name]), 1e-15) << name;
}

TEST_P(CaseFile, RightOutputsPassAndWrongOnesFail) {
  auto outputs = right_outputs();
  const CaseReport good = judged(outputs);
  EXPECT_EQ(good.status, "pass");
  EXPECT_EQ(good.checks.size(), 5u);
  outputs["dk"] = clone(outputs["dk"]);
  fill(outputs["dk"]->slice(1, 39, 40), 0);  // the last key
  const CaseReport bad = judged(outputs);
  EXPECT_EQ(bad.status, "fail");
  for (const Check& check : bad.checks) EXPECT_EQ(check.passed, check.output != "dk") << describe(check);
}

TEST_P(CaseFile, LongCasesAreJudgedByRowsAndColumns) {
  auto outputs = right_outputs();
  CheckOptions options;
  options.full_flops = 1;
  const CaseReport good = judged(outputs, options);
  EXPECT_EQ(good.status, "pass");
  for (const Check& check : good.checks) EXPECT_TRUE(check.strategy == "rows" || check.strategy == "cols") << check.strategy;
  outputs["o"] = clone(outputs["o"]);
  fill(outputs["o"]->slice(1, 39, 40), 0);
  EXPECT_EQ(judged(outputs, options).status, "fail");
}

TEST_P(CaseFile, WithoutGradientsOnlyForwardIsJudged) {
  auto outputs = right_outputs();
  for (const char* name : {"dq", "dk", "dv"}) outputs.erase(name);
  const CaseReport report = judged(outputs);
  EXPECT_EQ(report.status, "pass");
  EXPECT_EQ(report.checks.size(), 2u);
}

TEST_P(CaseFile, BadFilesAreRefusedByName) {
  auto outputs = right_outputs();
  const auto refusal = [&](const std::map<std::string, Tensor>& given) { return test::message_of([&] { judged(given); }); };
  auto missing = outputs, extra = outputs, narrow = outputs;
  missing.erase("o");
  EXPECT_THAT(refusal(missing), HasSubstr("has no tensor 'o'"));
  extra["dkk"] = outputs["dk"];
  EXPECT_THAT(refusal(extra), HasSubstr("did you mean dk"));
  narrow["o"] = clone(outputs["o"]->slice(1, 0, 39));
  EXPECT_THAT(refusal(narrow), HasSubstr("o has shape [2, 39, 2, 8], expected [2, 40, 2, 8]"));
  EXPECT_THAT(test::message_of([&] { write_case(path("case"), test_, {}, true); }), HasSubstr("exists"));
  EXPECT_THAT(test::message_of([&] { write_case("case.txt", test_, {}, true); }), HasSubstr("NAME.h5 or NAME.safetensors"));
  write_tensor_file(path("plain"), {}, {});
  EXPECT_THAT(test::message_of([&] { judge_outputs(path("plain"), path("plain"), {}); }), HasSubstr("is no case"));
}

INSTANTIATE_TEST_SUITE_P(BothFormats, CaseFile, testing::Values("h5", "safetensors"), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace megatoken
