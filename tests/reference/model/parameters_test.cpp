// Parameter counts from config against counts that were published or added up by hand.
#include "reference/model/parameters.hpp"

#include <gtest/gtest.h>

namespace megatoken {
namespace {

TEST(Parameters, TheAnchorModelHasExactly27781427952) {
  const ModelConfig model = load_model_config("qwen3x_27b");
  const ParameterCounts counts = count_parameters(model);
  EXPECT_EQ(counts.trunk, 24353201664);
  EXPECT_EQ(counts.embedding, 1271398400);
  EXPECT_EQ(counts.head, 1271398400);
  EXPECT_EQ(counts.mtp, 424699392);
  EXPECT_EQ(counts.vision, 460730096);
  EXPECT_EQ(counts.trunk + counts.head, 25624600064);
  EXPECT_EQ(counts.total(), 27781427952);
  EXPECT_EQ(count_layer_parameters(model, {Mixer::Attention, Mlp::Dense}).mixer.total(), 104858112);
  EXPECT_EQ(count_layer_parameters(model, {Mixer::GatedDelta, Mlp::Dense}).mixer.total(), 115876064);
  EXPECT_EQ(count_layer_parameters(model, {Mixer::Attention, Mlp::Dense}).mlp.total(), 267386880);
}

double millions(int64_t count) { return static_cast<double>(count) / 1e6; }
double billions(int64_t count) { return static_cast<double>(count) / 1e9; }

TEST(Parameters, Glm53FlashMatchesItsTable) {
  const ModelConfig model = load_model_config("glm53_flash");
  const LayerParameters kda = count_layer_parameters(model, {Mixer::Kda, Mlp::Experts});
  const LayerParameters dsa = count_layer_parameters(model, {Mixer::SparseAttention, Mlp::Experts});
  const LayerParameters dense = count_layer_parameters(model, {Mixer::Kda, Mlp::Dense});
  EXPECT_NEAR(millions(kda.mixer.total()), 137.73, 5e-3);
  EXPECT_NEAR(millions(dsa.mixer.total()), 117.44, 5e-3);
  EXPECT_NEAR(millions(dsa.indexer.total()), 7.47, 5e-3);
  EXPECT_NEAR(millions(kda.one_expert), 25.17, 5e-3);
  EXPECT_NEAR(billions(kda.routed + kda.mlp.total() + kda.router.total()), 7.274, 1.5e-3);
  EXPECT_NEAR(millions(dense.mlp.total()), 150.99, 1e-2);
  EXPECT_NEAR(millions(kda.hyper.total()), 0.786, 5e-4);

  const ParameterCounts counts = count_parameters(model);
  EXPECT_NEAR(billions(counts.embedding + counts.head), 1.269, 5e-4);
  EXPECT_NEAR(billions(counts.text()), 313.33, 5e-3);
  EXPECT_NEAR(static_cast<double>(counts.routed) / static_cast<double>(counts.text()), 0.9715, 5e-5);
  EXPECT_NEAR(billions(counts.mtp), 7.43, 5e-3);
  EXPECT_NEAR(billions(counts.text() + counts.mtp), 320.76, 5e-3);
  EXPECT_NEAR(billions(counts.active), 16.11, 5e-3);
  EXPECT_NEAR(billions(counts.active + counts.embedding + counts.head), 17.38, 5e-3);
}

TEST(Parameters, DenseModelsMatchTheirPublishedTotals) {
  EXPECT_EQ(count_parameters(load_model_config("llama3_8b")).total(), 8030261248);
  EXPECT_EQ(count_parameters(load_model_config("llama3_70b")).total(), 70553706496);
  EXPECT_EQ(count_parameters(load_model_config("qwen3_4b")).total(), 4022468096);
  EXPECT_EQ(count_parameters(load_model_config("qwen3_32b")).total(), 32762123264);
}

TEST(Parameters, SplitAndWholePartsAddUp) {
  for (const std::string& name : known_model_configs()) {
    const ModelConfig model = load_model_config(name);
    int64_t trunk = model.c;
    for (const LayerConfig& layer : model.layers) trunk += count_layer_parameters(model, layer).total();
    EXPECT_EQ(trunk, count_parameters(model).trunk) << name;
    EXPECT_LE(count_parameters(model).active, trunk) << name;
  }
}

}  // namespace
}  // namespace megatoken
