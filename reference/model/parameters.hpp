// How many parameters a model has, block by block, counted from its config. Blocks that tensor parallelism splits are kept apart from those
// that every rank holds whole (norms, router, low-rank entries, indexer, stream mixing), because memory needs both.
#pragma once
#include <cstdint>

#include "reference/model/config.hpp"

namespace megatoken {

struct BlockParameters {
  int64_t split = 0;  // divided by tensor parallelism
  int64_t whole = 0;  // on every rank
  int64_t total() const { return split + whole; }
};

struct LayerParameters {
  BlockParameters mixer;          // without the indexer
  BlockParameters indexer;        // sparse attention only
  BlockParameters mlp;            // a dense MLP, or the shared experts
  BlockParameters router;         // weights and selection bias
  int64_t routed = 0;             // all routed experts; divided by expert parallelism
  int64_t one_expert = 0;
  BlockParameters norms;          // before the mixer and before the mlp
  BlockParameters hyper;          // two sites of stream mixing
  int64_t total() const;
  int64_t active(int64_t experts_per_token) const;  // parameters that one token meets
};

LayerParameters count_layer_parameters(const ModelConfig& model, LayerConfig layer);

struct ParameterCounts {
  int64_t embedding = 0, head = 0;   // head is 0 when it is tied to the embedding
  int64_t trunk = 0;                 // all layers and the final norm
  int64_t routed = 0;                // of the trunk
  int64_t mtp = 0, vision = 0;
  int64_t active = 0;                // of the trunk, met by one token
  int64_t text() const { return trunk + embedding + head; }
  int64_t total() const { return text() + mtp + vision; }
};

ParameterCounts count_parameters(const ModelConfig& model);

}  // namespace megatoken
