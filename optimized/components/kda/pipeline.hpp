// Chunks of one sequence on many threads. Most of a chunk's work needs no state: it is prepared before and finished after the one
// serial step that hands the state on. Waves of chunks go through prepare, advance, finish; at any time one wave advances while the
// next is prepared and the last is finished, so the serial step hides behind the parallel ones. Results do not depend on threads.
#pragma once
#include <algorithm>
#include <atomic>

#include "optimized/cpu/scratch.hpp"
#include "reference/components/kda/kda.hpp"

namespace megatoken::kda {

/// Slots that chunks are processed in, in waves of `wave`: chunk c uses slot c % slots.
inline int64_t pipeline_slots(int threads, int64_t wave) { return threads == 1 ? 1 : 3 * wave; }

/// prepare(c), then advance(lane, c) in order of c for every lane, then finish(c).
template <class Prepare, class Advance, class Finish>
void run_pipeline(int64_t wave, int64_t chunks, int64_t lanes, int threads, const Prepare& prepare, const Advance& advance, const Finish& finish) {
  if (threads == 1) {
    for (int64_t c = 0; c < chunks; ++c) {
      prepare(c);
      for (int64_t lane = 0; lane < lanes; ++lane) advance(lane, c);
      finish(c);
    }
    return;
  }
  const int64_t waves = (chunks + wave - 1) / wave;
  const auto begin = [&](int64_t i) { return std::clamp<int64_t>(i * wave, 0, chunks); };
  for (int64_t step = 0; step < waves + 2; ++step) {
    const int64_t prepared = begin(step + 1) - begin(step), finished = begin(step - 1) - begin(step - 2);
    parallel_for(lanes + prepared + finished, threads, [&](int64_t item) {
      if (item < lanes)
        for (int64_t c = begin(step - 1); c < begin(step); ++c) advance(item, c);
      else if (item < lanes + prepared) prepare(begin(step) + item - lanes);
      else finish(begin(step - 2) + item - lanes - prepared);
    });
  }
}

/// Bytes of a Group, built from (shape, threads of its pipeline, arena).
template <class Group>
int64_t group_bytes(const Shape& shape, int threads) {
  cpu::Arena arena;
  Group(shape, threads, arena);
  return arena.used();
}
/// Enough for as many groups at a time as the machine has threads, or for one that uses them all.
template <class Group>
int64_t groups_workspace(const Shape& shape) {
  const int64_t workers = std::min<int64_t>(hardware_threads(), shape.b * shape.h);
  return std::max(workers * group_bytes<Group>(shape, 1), group_bytes<Group>(shape, 2));
}
/// body(group, b, h) for every batch row and query/key head: one thread each when there are enough of them, else one after the other,
/// each on all threads.
template <class Group, class Body>
void for_each_group(const Shape& shape, int threads, std::span<std::byte> workspace, const Body& body) {
  const int64_t items = shape.b * shape.h;
  if (items < threads) {
    cpu::Arena arena(workspace.data());
    Group group(shape, threads, arena);
    for (int64_t item = 0; item < items; ++item) body(group, item / shape.h, item % shape.h);
    return;
  }
  const int64_t bytes = group_bytes<Group>(shape, 1), fit = static_cast<int64_t>(workspace.size()) / bytes;
  const int workers = static_cast<int>(std::min<int64_t>({threads, fit, items}));
  std::atomic<int64_t> next{0};
  parallel_for(workers, workers, [&](int64_t worker) {
    cpu::Arena arena(workspace.data() + worker * bytes);
    Group group(shape, 1, arena);
    for (int64_t item = next++; item < items; item = next++) body(group, item / shape.h, item % shape.h);
  });
}

}  // namespace megatoken::kda
