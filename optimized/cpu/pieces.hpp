// Work cut into pieces: exactly k of them, sizes differing by at most one, empty ones allowed. Cutting by a rounded-up step gives fewer
// pieces than asked for (9 in 8 → 5), so ranks that count pieces disagree and hang (parallel.md §3.2, failures 1 and 2).
#pragma once
#include <cstdint>
#include <utility>

namespace megatoken::cpu {

/// [begin, end) of piece i of k.
inline std::pair<int64_t, int64_t> piece(int64_t count, int64_t k, int64_t i) {
  const int64_t size = count / k, larger = count % k;
  const int64_t begin = i * size + (i < larger ? i : larger);
  return {begin, begin + size + (i < larger ? 1 : 0)};
}

}  // namespace megatoken::cpu
