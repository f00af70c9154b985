// Workspace of CPU variants: a part that every item shares and a part for each worker, so that run allocates nothing.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <span>

#include "reference/core/error.hpp"
#include "reference/core/threads.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::cpu {

/// Hands out cache-line aligned arrays one behind the other. Without memory it only counts, so one constructor both
/// measures and carves a scratch struct.
class Arena {
 public:
  explicit Arena(std::byte* memory = nullptr) : memory_(memory) {}
  template <class T>
  T* take(int64_t count) {
    T* array = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return array;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* memory_;
  int64_t used_ = 0;
};

/// Bytes of a scratch struct, which is built from (shape, arena).
template <class Scratch, class Shape>
int64_t scratch_bytes(const Shape& shape) {
  Arena arena;
  Scratch(shape, arena);
  return arena.used();
}

/// Calls body(item, scratch) for every item. Items are handed out in order; each worker has its own Scratch in `memory`,
/// and there are no more workers than fit in it.
template <class Scratch, class Shape, class Body>
void for_each_item(int64_t items, int threads, const Shape& shape, std::span<std::byte> memory, const Body& body) {
  const int64_t bytes = scratch_bytes<Scratch>(shape);
  const auto fit = static_cast<int64_t>(memory.size()) / bytes;
  MEGATOKEN_CHECK(fit >= 1, "workspace of {} bytes given, {} needed for each worker", memory.size(), bytes);
  const int workers = static_cast<int>(std::min<int64_t>({threads, fit, items}));
  std::atomic<int64_t> next{0};
  parallel_for(workers, workers, [&](int64_t worker) {
    Arena arena(memory.data() + worker * bytes);
    Scratch scratch(shape, arena);
    for (int64_t item = next++; item < items; item = next++) body(item, scratch);
  });
}

}  // namespace megatoken::cpu
