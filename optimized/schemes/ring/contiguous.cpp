// The scheme `ring`: contiguous shards. With a causal mask rank r works in r + 1 of the steps, so the last rank sets the time.
#include "optimized/schemes/ring/merge.hpp"
#include "optimized/schemes/ring/ring.hpp"

namespace megatoken::ring {
namespace {

Part causal_part(int64_t n, int rank, int source) {
  if (source > rank) return {};
  return {0, n, 0, n, source == rank};
}

const Registered<Scheme> registered{
    make_ring_scheme("ring", "keys and values pass around a ring of contiguous shards", contiguous_ring())};

}  // namespace

Ring contiguous_ring() { return {.layout = contiguous_layout, .causal_part = causal_part, .merge = merge, .add = add}; }

}  // namespace megatoken::ring
