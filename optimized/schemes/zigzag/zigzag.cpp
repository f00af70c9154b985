#include "optimized/schemes/zigzag/zigzag.hpp"

#include "optimized/schemes/ring/merge.hpp"

namespace megatoken::ring {
namespace {

Part causal_part(int64_t n, int rank, int source) {
  const int64_t a = n / 2;
  if (source == rank) return {0, n, 0, n, true};
  if (source < rank) return {0, n, 0, a, false};
  return {a, n, 0, n, false};
}

const Registered<Scheme> registered{make_ring_scheme("zigzag", "a ring over shards of an early and a late chunk: equal causal work for all ranks", zigzag_ring())};

}  // namespace

Ring zigzag_ring() { return {.layout = zigzag_layout, .causal_part = causal_part, .merge = merge, .add = add}; }

}  // namespace megatoken::ring
