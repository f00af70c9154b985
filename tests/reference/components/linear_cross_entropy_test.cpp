#include <gtest/gtest.h>

#include "tests/compare.hpp"

namespace megatoken {
namespace {

using test::filled;
using test::message_of;
using test::relative_rms;

const Variant& cpu() { return find_variant("linear_cross_entropy", "cpu"); }

TEST(LinearCrossEntropy, UniformLogitsCostTheLogOfTheVocabularyPerLabel) {
  Problem p = filled("linear_cross_entropy", "t=7 c=3 v=11");
  fill(p["w"], 0);
  run_variant(cpu(), p, Phase::Forward);
  int64_t valid = 0;
  for (int64_t i = 0; i < 7; ++i) valid += value_at(p["label"], i) != -100;
  EXPECT_EQ(valid, 6);
  EXPECT_NEAR(value_at(p["loss"], 0), 6 * std::log(11.0), 1e-13);
}

// ml-cross-entropy #14, and the mean over no label: 0/0.
TEST(LinearCrossEntropy, AllIgnoredGivesZeroLossAndZeroGradients) {
  Problem p = filled("linear_cross_entropy", "t=5 c=3 v=4 bias=1");
  fill(p["label"], -100);
  run_variant(cpu(), p, Phase::Both);
  EXPECT_EQ(value_at(p["loss"], 0), 0);
  for (const char* name : {"logprob", "dx", "dw", "dbias"})
    for (int64_t i = 0; i < p[name].size(); ++i) EXPECT_EQ(value_at(p[name], i), 0) << name;
}

// parallel.md F10: gradients must follow the upstream gradient of the loss, whatever it is; quack #209: twice in a row.
TEST(LinearCrossEntropy, GradientsAreLinearInTheUpstreamGradient) {
  Problem one = filled("linear_cross_entropy", "b=2 t=6 c=4 v=9 bias=1");
  fill(one["dlogprob"], 0), fill(one["dloss"], 1);
  run_variant(cpu(), one, Phase::Both);
  for (double upstream : {0.5, -1.0, 0.0}) {
    Problem p = test::with_inputs_of(one, "b=2 t=6 c=4 v=9 bias=1");
    fill(p["dloss"], upstream);
    run_variant(cpu(), p, Phase::Both);
    run_variant(cpu(), p, Phase::Backward);
    for (const char* name : {"dx", "dw", "dbias"})
      for (int64_t i = 0; i < p[name].size(); ++i) EXPECT_NEAR(value_at(p[name], i), upstream * value_at(one[name], i), 1e-13) << name;
  }
}

TEST(LinearCrossEntropy, GradientOfTheBiasSumsToZero) {
  Problem p = filled("linear_cross_entropy", "t=9 c=2 v=7 bias=1");
  run_variant(cpu(), p, Phase::Both);
  double sum = 0;
  for (int64_t v = 0; v < 7; ++v) sum += value_at(p["dbias"], v);
  EXPECT_NEAR(sum, 0, 1e-13);
}

// Uneven shards: the sum of parts with uneven numbers of labels is the whole, with no factor anywhere (parallel.md §2.10).
TEST(LinearCrossEntropy, ShardsAddUpToTheWhole) {
  Problem whole = filled("linear_cross_entropy", "t=15 c=3 v=5");
  fill(whole["dlogprob"], 0);
  run_variant(cpu(), whole, Phase::Both);
  double loss = 0;
  Tensor dw = Tensor::zeros(DType::F64, whole["dw"].shape);
  for (const auto& [begin, end] : {std::pair{0, 4}, {4, 6}, {6, 15}}) {
    Problem part = filled("linear_cross_entropy", "c=3 v=5 t=" + std::to_string(end - begin));
    for (const char* name : {"x", "label", "dlogprob"}) copy(whole[name].slice(1, begin, end), part[name]);
    copy(whole["w"], part["w"]), copy(whole["dloss"], part["dloss"]);
    run_variant(cpu(), part, Phase::Both);
    loss += value_at(part["loss"], 0);
    for (int64_t i = 0; i < dw->size(); ++i) set_value(dw, i, value_at(dw, i) + value_at(part["dw"], i));
    EXPECT_LE(relative_rms(part["dx"], whole["dx"].slice(1, begin, end)), 1e-14);
  }
  EXPECT_NEAR(loss, value_at(whole["loss"], 0), 1e-12);
  EXPECT_LE(relative_rms(dw, whole["dw"]), 1e-13);
}

TEST(LinearCrossEntropy, RefusesLabelsOutsideTheVocabulary) {
  Problem p = filled("linear_cross_entropy", "b=2 t=3 c=2 v=4");
  set_value(p["label"], 4, 4);
  EXPECT_EQ(message_of([&] { run_variant(cpu(), p, Phase::Forward); }), "linear_cross_entropy: label at b=1,t=1 is 4, expected -100 (ignored) or 0 to 3 (v=4)");
}

}  // namespace
}  // namespace megatoken
