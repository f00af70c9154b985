// Layers as tapes of operations, for one rank of a layout. Sizes are those of training in bf16 with fp32 where the mathematics asks for it.
//
// Row counts: n tokens of one rank where rows are split over cp and tp (norms, streams, residuals), g = n·tp where heads are split over tp
// instead (projections gather their input for as long as they run), t the whole sequence.
#pragma once
#include "harness/plan/request.hpp"
#include "harness/plan/tape.hpp"

namespace megatoken::plan {

/// Appends a block to a tape. `x` is the normalised input, n·c; returns the block's output, n·c.
int add_attention(Tape& tape, const Request& request, int x);
int add_gated_delta(Tape& tape, const Request& request, int x);
int add_kda(Tape& tape, const Request& request, int x);
int add_sparse_attention(Tape& tape, const Request& request, int x);
int add_dense_mlp(Tape& tape, const Request& request, int x);
int add_experts(Tape& tape, const Request& request, int x);

/// A whole layer: streams or residual, norms, mixer, mlp.
Tape make_layer(const Request& request, LayerConfig layer);

/// Bytes of the layer's input on one rank: all residual streams.
int64_t layer_input_bytes(const Request& request);

/// Tensor-parallel ranks gather their rows before a projection and scatter after it: bytes of the gathered buffer, 0 on one rank.
int64_t gathered_bytes(const Request& request);

/// fp32 index scores of all heads that are alive at once, and the scores summed over heads beside them.
int64_t index_score_bytes(const Request& request);

/// One rectangle of dense fp32 scores: heads of a rank × rows × all keys.
int64_t dense_score_bytes(const Request& request);

/// Token rows at the experts of one rank, copies by etp included, at the busiest rank.
int64_t expert_rows(const Request& request);

}  // namespace megatoken::plan
