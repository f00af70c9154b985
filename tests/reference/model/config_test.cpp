// Reading config.json: what is understood, and what each kind of bad input says.
#include "reference/model/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string message_of(const std::string& json) {
  try {
    parse_model_config(json, "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "no error";
}

/// A config with one field replaced or, when the value is empty, removed.
std::string dense_with(const std::string& field, const std::string& value) {
  const std::pair<const char*, const char*> fields[] = {{"model_type", "\"llama\""}, {"vocab_size", "64"}, {"hidden_size", "32"},
      {"intermediate_size", "48"}, {"num_hidden_layers", "2"}, {"num_attention_heads", "4"}, {"num_key_value_heads", "2"}, {"head_dim", "8"}};
  std::string text;
  for (const auto& [name, usual] : fields) {
    const std::string chosen = name == field ? value : usual;
    if (!chosen.empty()) text += (text.empty() ? "" : ", ") + std::string("\"") + name + "\": " + chosen;
  }
  return "{" + text + "}";
}

TEST(ModelConfig, ReadsGlm53Flash) {
  const ModelConfig model = load_model_config("glm53_flash");
  EXPECT_EQ(model.layers.size(), 45u);
  EXPECT_EQ(model.count(Mixer::Kda), 34);
  EXPECT_EQ(model.count(Mixer::SparseAttention), 11);
  EXPECT_EQ(model.count(Mlp::Experts), 42);
  EXPECT_EQ(model.layers[3], (LayerConfig{Mixer::SparseAttention, Mlp::Experts}));
  EXPECT_EQ(model.layers[2], (LayerConfig{Mixer::Kda, Mlp::Dense}));
  EXPECT_EQ(model.layers[44].mixer, Mixer::Kda);
  EXPECT_EQ(model.sparse->selected_keys(), 2051);
  EXPECT_EQ(model.hyper.n, 4);
  EXPECT_EQ(model.delta->lower_bound, -5.0);
  EXPECT_EQ(model.max_tokens, 1048576);
}

/// The built-in config without one field.
std::string glm_without(const std::string& field) {
  std::ifstream file(std::string(MEGATOKEN_SOURCE_DIR) + "/reference/model/configs/glm53_flash.json");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t begin = text.find("\"" + field + "\"");
  EXPECT_NE(begin, std::string::npos) << field;
  return text.erase(begin, text.find('\n', begin) - begin);
}

// A class default of 16 or a reader's 1 in place of the checkpoint's 4 selects other keys without a word beyond 2048 tokens.
TEST(ModelConfig, TheTokensOfAPoolComeFromTheCheckpointOrNotAtAll) {
  EXPECT_EQ(load_model_config("glm53_flash").sparse->index_pool, 4);
  EXPECT_PRED2(holds, message_of(glm_without("index_kpool")), "index_kpool is missing");
}

// The config still holds a rotary base; heads have no rotary channels, and a loader must not make some up.
TEST(ModelConfig, SparseAttentionHasNoRotaryChannelsByDefaultEither) {
  EXPECT_EQ(load_model_config("glm53_flash").sparse->rope, 0);
  EXPECT_EQ(parse_model_config(glm_without("qk_rope_head_dim"), "config.json").sparse->rope, 0);
}

// ROCm/ATOM 2051: sparse layers numbered among themselves met numbers of all layers, and the counts agreed. "First layer dense" is true of a
// slice of four layers only.
TEST(ModelConfig, LayersHaveOneNumberingAndThreeOfThemAreDense) {
  const ModelConfig model = load_model_config("glm53_flash");
  for (size_t i = 0; i < model.layers.size(); ++i) {
    EXPECT_EQ(model.layers[i].mixer == Mixer::SparseAttention, i % 4 == 3) << i;
    EXPECT_EQ(model.layers[i].mlp == Mlp::Dense, i < 3) << i;
  }
}

TEST(ModelConfig, ReadsTheHybridAnchorThroughItsWrapper) {
  const ModelConfig model = load_model_config("qwen3x_27b");
  EXPECT_EQ(model.name, "qwen3x_27b");
  EXPECT_EQ(model.count(Mixer::Attention), 16);
  EXPECT_EQ(model.count(Mixer::GatedDelta), 48);
  EXPECT_EQ(model.layers[3].mixer, Mixer::Attention);
  EXPECT_TRUE(model.attention->output_gate);
  EXPECT_TRUE(model.vision.has_value());
}

TEST(ModelConfig, EveryKnownConfigLoads) {
  const auto known = known_model_configs();
  for (const char* name : {"glm53_flash", "qwen3x_27b", "llama3_8b"}) EXPECT_NE(std::find(known.begin(), known.end(), name), known.end()) << name;
  for (const std::string& name : known) EXPECT_EQ(load_model_config(name).name, name);
}

TEST(ModelConfig, ReadsAFileAndAFolder) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "model_config_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << dense_with("", "");
  EXPECT_EQ(load_model_config(folder).c, 32);
  EXPECT_EQ(load_model_config(folder / "config.json").attention->hk, 2);
  std::filesystem::remove_all(folder);
}

TEST(ModelConfig, BadInputSaysWhatIsWrongAndWhatIsNear) {
  EXPECT_PRED2(holds, message_of("{"), "config.json is not JSON");
  EXPECT_PRED2(holds, message_of("[1]"), "a model config is a JSON object");
  EXPECT_PRED2(holds, message_of(dense_with("model_type", "")), "model_type is missing");
  EXPECT_PRED2(holds, message_of(dense_with("model_type", "\"lama\"")), "llama");
  EXPECT_PRED2(holds, message_of(dense_with("hidden_size", "")), "hidden_size is missing");
  EXPECT_PRED2(holds, message_of(dense_with("hidden_size", "-32")), "hidden_size = -32, it must be a positive size");
  EXPECT_PRED2(holds, message_of(dense_with("hidden_size", "32.5")), "must be a whole number");
  EXPECT_PRED2(holds, message_of(dense_with("num_key_value_heads", "3")), "4 attention heads are not a multiple of 3");
  EXPECT_EQ(message_of(dense_with("", "")), "no error");
}

TEST(ModelConfig, UnknownNamesSuggestTheNearest) {
  try {
    load_model_config("glm53_flsh");
    FAIL();
  } catch (const Error& error) {
    EXPECT_PRED2(holds, error.what(), "glm53_flash");
    EXPECT_EQ(error.exit_code(), 2);
  }
  EXPECT_THROW(load_model_config("no/such/config.json"), Error);
}

TEST(ModelConfig, LayerListsMustMatchTheNumberOfLayers) {
  const std::string text = R"({"model_type": "qwen3_5_text", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4, "layer_types": [LIST]})";
  const auto with_list = [&](const std::string& list) { return std::string(text).replace(text.find("LIST"), 4, list); };
  EXPECT_PRED2(holds, message_of(with_list(R"("full_attention")")), "one name for each of the 2 layers");
  EXPECT_PRED2(holds, message_of(with_list(R"("full_attention", "liner_attention")")), "linear_attention");
  EXPECT_EQ(message_of(with_list(R"("full_attention", "linear_attention")")), "no error");
}

}  // namespace
}  // namespace megatoken
