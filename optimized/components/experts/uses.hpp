// Who uses which expert: every (token, slot) that is not empty, sorted by expert and within an expert by token, in tiles of one expert.
#pragma once
#include <algorithm>

#include "optimized/cpu/scratch.hpp"
#include "reference/components/experts/experts.hpp"

namespace megatoken::experts {

constexpr int64_t kTile = 128;  // uses

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Uses [begin, begin + rows) of the sorted list, all of one expert.
struct Tile {
  int64_t expert, begin, rows;
};

/// The shared expert is number `e`, slot number `k`, and has every token.
struct Uses {
  int64_t tokens, slots, t, shared_slot, experts;
  int64_t *first, *first_tile;  // of every expert: where its uses and tiles begin; one more at the end
  int64_t *use, *next;          // token · slots + slot of every use, sorted · for sorting
  Elements<const int32_t, 3> id;

  Uses(const Shape& s, cpu::Arena& arena) : tokens(s.rows()), slots(s.slots()), t(s.t), shared_slot(s.k), experts(s.e + (s.shared ? 1 : 0)) {
    first = arena.take<int64_t>(experts + 1), first_tile = arena.take<int64_t>(experts + 1), next = arena.take<int64_t>(experts);
    use = arena.take<int64_t>(tokens * slots);
  }

  void sort(const Elements<const int32_t, 3>& ids) {
    id = ids;
    std::fill(next, next + experts, int64_t{0});
    for_each([&](int64_t, int64_t expert) { ++next[expert]; });
    first[0] = first_tile[0] = 0;
    for (int64_t e = 0; e < experts; ++e) {
      first[e + 1] = first[e] + next[e];
      first_tile[e + 1] = first_tile[e] + ceil_div(next[e], kTile);
      next[e] = first[e];
    }
    for_each([&](int64_t which, int64_t expert) { use[next[expert]++] = which; });
  }

  int64_t token(int64_t i) const { return use[i] / slots; }
  int64_t slot(int64_t i) const { return use[i] % slots; }
  bool has_tokens(int64_t expert) const { return first[expert] < first[expert + 1]; }

  int64_t tiles() const { return first_tile[experts]; }
  Tile tile(int64_t i) const {
    const int64_t expert = std::upper_bound(first_tile, first_tile + experts + 1, i) - first_tile - 1;
    const int64_t begin = first[expert] + (i - first_tile[expert]) * kTile;
    return {expert, begin, std::min(kTile, first[expert + 1] - begin)};
  }
  template <class Body>
  void for_tiles_of(int64_t expert, const Body& body) const {
    for (int64_t i = first_tile[expert]; i < first_tile[expert + 1]; ++i) body(tile(i));
  }
  template <class Body>
  void for_each_empty(const Body& body) const {
    for (int64_t i = 0; i < tokens * slots; ++i)
      if (expert_of(i) < 0) body(i / slots, i % slots);
  }

 private:
  int64_t expert_of(int64_t i) const {
    const int64_t token = i / slots, slot = i % slots;
    return slot == shared_slot ? experts - 1 : id(token / t, token % t, slot);
  }
  template <class Body>
  void for_each(const Body& body) const {
    for (int64_t i = 0; i < tokens * slots; ++i)
      if (const int64_t expert = expert_of(i); expert >= 0) body(i, expert);
  }
};

}  // namespace megatoken::experts
