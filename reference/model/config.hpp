// The shape of a model, read from the config.json that Hugging Face writes beside the weights. Everything else (parameter counts, memory,
// FLOPs, traffic, the model itself) follows from it; nothing is looked up by model name.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megatoken {

/// How a layer mixes tokens.
enum class Mixer {
  Attention,        // softmax attention, grouped key/value heads
  SparseAttention,  // latent attention over the keys that a pooled indexer selects
  Kda,              // Kimi delta attention: delta rule with a decay per channel
  GatedDelta,       // gated delta rule with one decay per head
};
enum class Mlp { Dense, Experts };
std::string_view name_of(Mixer mixer);
std::string_view name_of(Mlp mlp);

struct LayerConfig {
  Mixer mixer = Mixer::Attention;
  Mlp mlp = Mlp::Dense;
  bool operator==(const LayerConfig&) const = default;
};

struct AttentionConfig {
  int64_t h = 0, hk = 0, d = 0;
  bool output_gate = false;  // the query projection is doubled
  bool qk_norm = false;
};

struct SparseAttentionConfig {
  int64_t h = 0;
  int64_t query_rank = 0, latent = 0;  // low-rank widths of the queries and of the keys and values
  int64_t d = 0, rope = 0, dv = 0;     // per head: width without position, with position, value width
  int64_t index_heads = 0, index_d = 0, index_topk = 0, index_pool = 1;
  bool always_select_tail = true;
  /// Most keys a query can see: index_topk, and the tail that is not a whole pool.
  int64_t selected_keys() const { return index_topk + (always_select_tail ? index_pool - 1 : 0); }
};

struct DeltaConfig {               // kda and gated_delta
  int64_t hk = 0, h = 0;           // key heads, value heads
  int64_t d = 0, dv = 0, kernel = 0;
  double lower_bound = 0;          // kda: g = lower_bound·sigmoid(…)
};

struct ExpertsConfig {
  int64_t e = 0, per_token = 0;                   // routed experts, chosen by each token
  int64_t width = 0, shared = 0;                  // inner width of one expert, number of shared experts of that width
  int64_t groups = 1, groups_per_token = 1;
  double scale = 1;
  bool normalize = true;                          // weights of the chosen experts sum to `scale`
};

struct HyperConnectionConfig {
  int64_t n = 1;  // residual streams; 1 = an ordinary residual
  int64_t sinkhorn_iterations = 0;
  double eps = 0;
};

/// A vision tower: counted, never run.
struct VisionConfig {
  int64_t depth = 0, c = 0, intermediate = 0, patch = 0, temporal_patch = 0, channels = 0, merge = 0, positions = 0, out = 0;
};

struct ModelConfig {
  std::string name, model_type;
  int64_t c = 0, v = 0;          // model width, vocabulary
  int64_t intermediate = 0;      // inner width of a dense MLP
  int64_t max_tokens = 0;        // the context length the model was made for
  double norm_eps = 0, swiglu_limit = 0, initializer_range = 0.02;
  bool tied_embeddings = false;
  std::vector<LayerConfig> layers;
  std::optional<AttentionConfig> attention;
  std::optional<SparseAttentionConfig> sparse;
  std::optional<DeltaConfig> delta;
  std::optional<ExpertsConfig> experts;
  HyperConnectionConfig hyper;
  int64_t mtp_layers = 0;        // extra layers for multi-token prediction, stored with the weights, not part of `layers`
  std::optional<VisionConfig> vision;

  int64_t count(Mixer mixer) const;
  int64_t count(Mlp mlp) const;
};

/// Reads the text of a config.json; a wrapper with text_config and vision_config is followed. `where` names it in messages.
/// Usage Errors: not JSON, unknown model_type (with the nearest), missing or absurd field.
ModelConfig parse_model_config(std::string_view json, std::string_view where);

/// A name from known_model_configs() or the path of a config.json (or of the folder that holds it).
ModelConfig load_model_config(const std::string& name_or_path);

/// The configs that come with the program (reference/model/configs), by name.
std::vector<std::string> known_model_configs();

}  // namespace megatoken
