// kda: input distributions. Gates and β are drawn as the decay and step they stand for and mapped back through the chosen
// activation, so that every gate form sees the same recurrence.
#pragma once
#include "reference/core/component.hpp"

namespace megatoken::kda {

/// normal   memory of a few tokens up to a few hundred, spread over channels
/// aimed    slow decay; one row per 64-row tile, just at a tile, 16-row block, shard or document edge, is written with a shared
///          key and β ≈ 1, and every query reads that key: what a query sees crosses the nearest edges
/// extreme  gates 0, −10⁻¹², −1000 and saturated, also mixed over channels; β 0 and 1; keys all equal, ±k, one-hot, tiny, huge
/// tokens   rows of equal token are equal
void fill_inputs(const FillRequest& request);

}  // namespace megatoken::kda
