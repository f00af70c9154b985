// Parameter counts. Shapes as in the checkpoints: a projection from `in` to `out` has in·out weights, and no model here has biases in its
// text layers; the vision tower does.
#include "reference/model/parameters.hpp"

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

BlockParameters attention_parameters(const ModelConfig& model) {
  const AttentionConfig& a = *model.attention;
  const int64_t queries = a.h * a.d, keys = a.hk * a.d;
  return {.split = model.c * (a.output_gate ? 2 : 1) * queries + 2 * model.c * keys + queries * model.c, .whole = a.qk_norm ? 2 * a.d : 0};
}

BlockParameters sparse_attention_parameters(const ModelConfig& model) {
  const SparseAttentionConfig& a = *model.sparse;
  const int64_t q_up = a.query_rank * a.h * (a.d + a.rope), kv_up = a.latent * a.h * (a.d + a.dv), out = a.h * a.dv * model.c;
  const int64_t q_down = model.c * a.query_rank + a.query_rank, kv_down = model.c * (a.latent + a.rope) + a.latent;  // with their norms
  return {.split = q_up + kv_up + out, .whole = q_down + kv_down};
}

BlockParameters indexer_parameters(const ModelConfig& model) {
  const SparseAttentionConfig& a = *model.sparse;
  const int64_t queries = a.query_rank * a.index_heads * a.index_d, key = model.c * a.index_d, key_norm = 2 * a.index_d;
  const int64_t head_weights = model.c * a.index_heads;
  const int64_t pooling = a.index_pool > 1 ? model.c * a.index_d + a.index_pool * a.index_d : 0;  // gate and slot bias
  return {.whole = queries + key + key_norm + head_weights + pooling};
}

BlockParameters kda_parameters(const ModelConfig& model) {
  const DeltaConfig& k = *model.delta;
  const int64_t width = k.h * k.d, rank = k.d;  // both gates go through a width of one head
  const int64_t projections = 3 * model.c * width + width * model.c, convolutions = 3 * width * k.kernel;
  const int64_t gates_up = 2 * rank * width, beta = model.c * k.h, decay = k.h + width;  // decay: A_log and dt_bias
  return {.split = projections + convolutions + gates_up + beta + decay, .whole = 2 * model.c * rank + k.dv};
}

BlockParameters gated_delta_parameters(const ModelConfig& model) {
  const DeltaConfig& g = *model.delta;
  const int64_t channels = 2 * g.hk * g.d + g.h * g.dv, values = g.h * g.dv;
  const int64_t projections = model.c * channels + model.c * values + 2 * model.c * g.h + values * model.c;
  return {.split = projections + channels * g.kernel + 2 * g.h, .whole = g.dv};
}

int64_t vision_parameters(const VisionConfig& v) {
  const int64_t patches = v.channels * v.temporal_patch * v.patch * v.patch * v.c + v.c, positions = v.positions * v.c;
  const int64_t block = 4 * v.c                                    // two norms with bias
                        + 3 * v.c * v.c + 3 * v.c + v.c * v.c + v.c  // qkv and output
                        + 2 * v.c * v.intermediate + v.intermediate + v.c;
  const int64_t merged = v.c * v.merge * v.merge;
  const int64_t merger = 2 * v.c + merged * merged + merged + merged * v.out + v.out;
  return patches + positions + v.depth * block + merger;
}

/// A multi-token-prediction layer: two norms and a projection of [embedding, hidden], one ordinary layer without stream mixing, a last norm.
int64_t mtp_parameters(const ModelConfig& model) {
  LayerConfig layer = model.layers.back();
  layer.mixer = model.sparse ? Mixer::SparseAttention : Mixer::Attention;
  const LayerParameters counts = count_layer_parameters(model, layer);
  return counts.total() - counts.hyper.total() + 2 * model.c * model.c + 3 * model.c;
}

}  // namespace

int64_t LayerParameters::total() const {
  return mixer.total() + indexer.total() + mlp.total() + router.total() + routed + norms.total() + hyper.total();
}

int64_t LayerParameters::active(int64_t experts_per_token) const { return total() - routed + experts_per_token * one_expert; }

LayerParameters count_layer_parameters(const ModelConfig& model, LayerConfig layer) {
  LayerParameters counts;
  switch (layer.mixer) {
    case Mixer::Attention: counts.mixer = attention_parameters(model); break;
    case Mixer::SparseAttention:
      counts.mixer = sparse_attention_parameters(model);
      counts.indexer = indexer_parameters(model);
      break;
    case Mixer::Kda: counts.mixer = kda_parameters(model); break;
    case Mixer::GatedDelta: counts.mixer = gated_delta_parameters(model); break;
  }
  if (layer.mlp == Mlp::Dense) {
    counts.mlp.split = 3 * model.c * model.intermediate;
  } else {
    const ExpertsConfig& x = *model.experts;
    counts.one_expert = 3 * model.c * x.width;
    counts.routed = x.e * counts.one_expert;
    counts.mlp.split = x.shared * counts.one_expert;
    counts.router.whole = x.e * model.c + x.e;
  }
  counts.norms.whole = 2 * model.c;
  if (const int64_t n = model.hyper.n; n > 1) {
    const int64_t mixing = n * n + 2 * n;  // comb, pre and post weights of one site
    counts.hyper.whole = 2 * (mixing * n * model.c + mixing + 3);
  }
  return counts;
}

ParameterCounts count_parameters(const ModelConfig& model) {
  MEGATOKEN_CHECK(!model.layers.empty(), "model {} has no layers", model.name);
  ParameterCounts counts;
  counts.embedding = model.v * model.c;
  counts.head = model.tied_embeddings ? 0 : counts.embedding;
  counts.trunk = counts.active = model.c;
  for (const LayerConfig& layer : model.layers) {
    const LayerParameters one = count_layer_parameters(model, layer);
    counts.trunk += one.total();
    counts.routed += one.routed;
    counts.active += one.active(model.experts ? model.experts->per_token : 0);
  }
  if (model.mtp_layers > 0) counts.mtp = model.mtp_layers * mtp_parameters(model);
  if (model.vision) counts.vision = vision_parameters(*model.vision);
  return counts;
}

}  // namespace megatoken
