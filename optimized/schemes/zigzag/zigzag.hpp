// Zig-zag ring attention: a rank holds chunk r and chunk 2N−1−r of 2N, each of a = n/2 tokens, so that with a causal mask every rank has
// the same work in every step: step 0 is plain causal attention on the own rows (both chunks are in increasing order); later,
//   block of a lower rank:   all queries × the first half of the keys,
//   block of a higher rank:  second half of the queries × all keys,
// nothing masked, 2a² pairs each. Without a causal mask every step is whole, as in the contiguous ring. Bytes are those of the ring.
#pragma once
#include "optimized/schemes/ring/ring.hpp"

namespace megatoken::ring {

Ring zigzag_ring();

}  // namespace megatoken::ring
