// config.json → ModelConfig. One reader per family of model types; every field is checked where it is read.
#include "reference/model/config.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {

// The files of reference/model/configs, embedded by the build.
extern const std::string_view kModelConfigGlm53Flash, kModelConfigQwen3x27b, kModelConfigQwen34b, kModelConfigQwen332b, kModelConfigLlama38b,
    kModelConfigLlama370b;

namespace {

const std::map<std::string, std::string_view>& embedded_configs() {
  static const std::map<std::string, std::string_view> configs{
      {"glm53_flash", kModelConfigGlm53Flash}, {"qwen3x_27b", kModelConfigQwen3x27b}, {"qwen3_4b", kModelConfigQwen34b},
      {"qwen3_32b", kModelConfigQwen332b},     {"llama3_8b", kModelConfigLlama38b},   {"llama3_70b", kModelConfigLlama370b}};
  return configs;
}

/// Checked access to the fields of one JSON object.
class Fields {
 public:
  Fields(const nlohmann::json& json, std::string where) : json_(json), where_(std::move(where)) {
    MEGATOKEN_CHECK(json_.is_object(), "{}: a model config is a JSON object", where_);
  }

  bool has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }

  int64_t size(const char* name) const {
    const int64_t value = integer(name);
    MEGATOKEN_CHECK(value >= 1 && value <= int64_t{1} << 40, "{}: {} = {}, it must be a positive size", where_, name, value);
    return value;
  }
  int64_t size_or(const char* name, int64_t otherwise) const { return has(name) ? size(name) : otherwise; }
  int64_t count_or(const char* name, int64_t otherwise) const {
    if (!has(name)) return otherwise;
    const int64_t value = integer(name);
    MEGATOKEN_CHECK(value >= 0 && value <= int64_t{1} << 40, "{}: {} = {}, it must not be negative", where_, name, value);
    return value;
  }
  double number_or(const char* name, double otherwise) const {
    if (!has(name)) return otherwise;
    MEGATOKEN_CHECK(json_[name].is_number(), "{}: {} = {}, it must be a number", where_, name, json_[name].dump());
    return json_[name].get<double>();
  }
  bool flag_or(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    MEGATOKEN_CHECK(json_[name].is_boolean(), "{}: {} = {}, it must be true or false", where_, name, json_[name].dump());
    return json_[name].get<bool>();
  }
  std::string text_or(const char* name, const std::string& otherwise) const {
    return has(name) && json_[name].is_string() ? json_[name].get<std::string>() : otherwise;
  }
  /// A list with one name per layer; empty when the field is absent.
  std::vector<std::string> names(const char* name, int64_t layers) const {
    if (!has(name)) return {};
    MEGATOKEN_CHECK(json_[name].is_array() && static_cast<int64_t>(json_[name].size()) == layers,
                    "{}: {} must list one name for each of the {} layers", where_, name, layers);
    std::vector<std::string> list;
    for (const auto& entry : json_[name]) {
      MEGATOKEN_CHECK(entry.is_string(), "{}: {} holds {}, it must hold names", where_, name, entry.dump());
      list.push_back(entry.get<std::string>());
    }
    return list;
  }
  const nlohmann::json& operator[](const char* name) const { return json_[name]; }
  const std::string& where() const { return where_; }

 private:
  int64_t integer(const char* name) const {
    MEGATOKEN_CHECK(has(name), "{}: field {} is missing", where_, name);
    MEGATOKEN_CHECK(json_[name].is_number_integer(), "{}: {} = {}, it must be a whole number", where_, name, json_[name].dump());
    return json_[name].get<int64_t>();
  }
  const nlohmann::json& json_;
  std::string where_;
};

template <class T>
T pick(const Fields& fields, const char* field, const std::string& word, const std::map<std::string, T>& meaning) {
  if (auto found = meaning.find(word); found != meaning.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : meaning) names.push_back(name);
  throw_unknown_name(format("{}: {}", fields.where(), field), word, names);
}

void read_common(const Fields& f, ModelConfig& model) {
  model.c = f.size("hidden_size");
  model.v = f.size("vocab_size");
  model.intermediate = f.size("intermediate_size");
  model.max_tokens = f.size_or("max_position_embeddings", 0);
  model.norm_eps = f.number_or("rms_norm_eps", 1e-6);
  model.initializer_range = f.number_or("initializer_range", 0.02);
  model.tied_embeddings = f.flag_or("tie_word_embeddings", false);
}

AttentionConfig read_attention(const Fields& f, bool qk_norm) {
  AttentionConfig a;
  a.h = f.size("num_attention_heads");
  a.hk = f.size_or("num_key_value_heads", a.h);
  a.d = f.size_or("head_dim", f.size("hidden_size") / a.h);
  a.qk_norm = qk_norm;
  MEGATOKEN_CHECK(a.h % a.hk == 0, "{}: {} attention heads are not a multiple of {} key/value heads", f.where(), a.h, a.hk);
  return a;
}

void read_dense(const Fields& f, ModelConfig& model) {
  model.attention = read_attention(f, model.model_type.starts_with("qwen3"));
  model.layers.assign(f.size("num_hidden_layers"), {Mixer::Attention, Mlp::Dense});
}

void read_qwen3_5(const Fields& f, ModelConfig& model) {
  model.attention = read_attention(f, true);
  model.attention->output_gate = f.flag_or("attn_output_gate", true);
  model.delta = DeltaConfig{.hk = f.size("linear_num_key_heads"), .h = f.size("linear_num_value_heads"), .d = f.size("linear_key_head_dim"),
                            .dv = f.size("linear_value_head_dim"), .kernel = f.size("linear_conv_kernel_dim")};
  MEGATOKEN_CHECK(model.delta->h % model.delta->hk == 0, "{}: {} linear value heads are not a multiple of {} key heads", f.where(),
                  model.delta->h, model.delta->hk);
  const int64_t layers = f.size("num_hidden_layers"), interval = f.size_or("full_attention_interval", 4);
  const auto types = f.names("layer_types", layers);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string type = !types.empty() ? types[i] : (i + 1) % interval == 0 ? "full_attention" : "linear_attention";
    model.layers.push_back({pick<Mixer>(f, "layer_types", type, {{"full_attention", Mixer::Attention}, {"linear_attention", Mixer::GatedDelta}}),
                            Mlp::Dense});
  }
  model.mtp_layers = f.count_or("mtp_num_hidden_layers", 0);
}

void read_glm5_next(const Fields& f, ModelConfig& model) {
  const int64_t h = f.size("num_attention_heads");
  model.sparse = SparseAttentionConfig{
      .h = h, .query_rank = f.size("q_lora_rank"), .latent = f.size("kv_lora_rank"), .d = f.size("qk_nope_head_dim"),
      .rope = f.count_or("qk_rope_head_dim", 0), .dv = f.size("v_head_dim"), .index_heads = f.size("index_n_heads"),
      .index_d = f.size("index_head_dim"), .index_topk = f.size("index_topk"), .index_pool = f.size("index_kpool"),
      .always_select_tail = f.flag_or("index_kpool_always_select_tail", true)};
  MEGATOKEN_CHECK(model.sparse->index_topk % model.sparse->index_pool == 0, "{}: index_topk = {} is not a multiple of index_kpool = {}",
                  f.where(), model.sparse->index_topk, model.sparse->index_pool);
  const int64_t heads = f.size("linear_num_heads"), d = f.size("linear_head_dim");
  model.delta = DeltaConfig{.hk = heads, .h = heads, .d = d, .dv = d, .kernel = f.size("linear_conv_kernel_dim"),
                            .lower_bound = f.number_or("linear_lower_bound", -5.0)};
  model.experts = ExpertsConfig{.e = f.size("n_routed_experts"), .per_token = f.size("num_experts_per_tok"),
                                .width = f.size("moe_intermediate_size"), .shared = f.count_or("n_shared_experts", 0),
                                .groups = f.size_or("n_group", 1), .groups_per_token = f.size_or("topk_group", 1),
                                .scale = f.number_or("routed_scaling_factor", 1.0), .normalize = f.flag_or("norm_topk_prob", true)};
  MEGATOKEN_CHECK(model.experts->per_token <= model.experts->e, "{}: {} experts per token, but there are only {}", f.where(),
                  model.experts->per_token, model.experts->e);
  model.hyper = {.n = f.size_or("hc_mult", 1), .sinkhorn_iterations = f.count_or("hc_sinkhorn_iters", 20), .eps = f.number_or("hc_eps", 1e-6)};
  model.swiglu_limit = f.number_or("swiglu_limit", 0);
  model.mtp_layers = f.count_or("num_nextn_predict_layers", 0);

  const int64_t layers = f.size("num_hidden_layers"), dense = f.count_or("first_k_dense_replace", 3);
  const auto mixers = f.names("layer_types", layers), mlps = f.names("mlp_layer_types", layers);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string mixer = !mixers.empty() ? mixers[i] : i % 4 == 3 ? "deepseek_sparse_attention" : "linear_attention";
    const std::string mlp = !mlps.empty() ? mlps[i] : i < dense ? "dense" : "sparse";
    model.layers.push_back(
        {pick<Mixer>(f, "layer_types", mixer, {{"deepseek_sparse_attention", Mixer::SparseAttention}, {"linear_attention", Mixer::Kda}}),
         pick<Mlp>(f, "mlp_layer_types", mlp, {{"dense", Mlp::Dense}, {"sparse", Mlp::Experts}})});
  }
}

VisionConfig read_vision(const Fields& f) {
  return {.depth = f.size("depth"),
          .c = f.size("hidden_size"),
          .intermediate = f.size("intermediate_size"),
          .patch = f.size("patch_size"),
          .temporal_patch = f.size_or("temporal_patch_size", 1),
          .channels = f.size_or("in_channels", 3),
          .merge = f.size_or("spatial_merge_size", 1),
          .positions = f.size("num_position_embeddings"),
          .out = f.size("out_hidden_size")};
}

using Reader = void (*)(const Fields&, ModelConfig&);
const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> table{{"glm5_next", read_glm5_next}, {"glm5_next_text", read_glm5_next}, {"qwen3_5", read_qwen3_5},
                                                   {"qwen3_5_text", read_qwen3_5}, {"llama", read_dense}, {"qwen3", read_dense}};
  return table;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Error(ErrorKind::Usage, format("{} cannot be read", path.string()), "check the path and its permissions");
  return text.str();
}

}  // namespace

std::string_view name_of(Mixer mixer) {
  switch (mixer) {
    case Mixer::Attention: return "attention";
    case Mixer::SparseAttention: return "sparse_attention";
    case Mixer::Kda: return "kda";
    case Mixer::GatedDelta: return "gated_delta";
  }
  return "";
}

std::string_view name_of(Mlp mlp) { return mlp == Mlp::Dense ? "dense" : "experts"; }

int64_t ModelConfig::count(Mixer mixer) const {
  return std::count_if(layers.begin(), layers.end(), [&](const auto& layer) { return layer.mixer == mixer; });
}

int64_t ModelConfig::count(Mlp mlp) const {
  return std::count_if(layers.begin(), layers.end(), [&](const auto& layer) { return layer.mlp == mlp; });
}

ModelConfig parse_model_config(std::string_view text, std::string_view where) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::Usage, format("{} is not JSON: {}", where, error.what()), "give the config.json of a model");
  }
  const Fields outer(json, std::string(where));
  const bool wrapped = outer.has("text_config");
  const Fields f(wrapped ? json["text_config"] : json, wrapped ? format("{}: text_config", where) : std::string(where));

  ModelConfig model;
  model.model_type = f.text_or("model_type", outer.text_or("model_type", ""));
  MEGATOKEN_CHECK(!model.model_type.empty(), "{}: field model_type is missing", where);
  const Reader read = pick<Reader>(f, "model_type", model.model_type, readers());
  model.name = outer.text_or("_name_or_path", "");
  if (model.name.empty()) model.name = model.model_type;
  read_common(f, model);
  read(f, model);
  if (outer.has("vision_config")) model.vision = read_vision(Fields(json["vision_config"], format("{}: vision_config", where)));
  return model;
}

ModelConfig load_model_config(const std::string& name_or_path) {
  if (auto found = embedded_configs().find(name_or_path); found != embedded_configs().end())
    return parse_model_config(found->second, name_or_path);
  std::filesystem::path path = name_or_path;
  if (std::filesystem::is_directory(path)) path /= "config.json";
  if (!std::filesystem::exists(path)) {
    if (name_or_path.find('/') == std::string::npos && path.extension() != ".json")
      throw_unknown_name("model", name_or_path, known_model_configs());
    throw Error(ErrorKind::Usage, format("model config {} does not exist", path.string()),
                "give a config.json or one of " + join(known_model_configs(), ", "));
  }
  return parse_model_config(read_file(path), path.string());
}

std::vector<std::string> known_model_configs() {
  std::vector<std::string> names;
  for (const auto& [name, text] : embedded_configs()) names.push_back(name);
  return names;
}

}  // namespace megatoken
