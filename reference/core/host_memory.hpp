// Aligned host memory, shared by the builds with and without CUDA.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "reference/core/error.hpp"

namespace megatoken {

inline constexpr size_t kHugePage = size_t{1} << 21;

inline size_t host_alignment(int64_t bytes) { return static_cast<size_t>(bytes) >= 4 * kHugePage ? kHugePage : 256; }
/// What an allocation really takes: large ones are rounded up to whole huge pages.
inline size_t host_allocation(int64_t bytes) {
  const size_t alignment = host_alignment(bytes), wanted = static_cast<size_t>(bytes);
  return wanted == 0 ? alignment : (wanted + alignment - 1) / alignment * alignment;
}

/// Large arrays ask the kernel for huge pages: rows of one head lie a page or more apart, and walking page tables for each of
/// them costs more than reading the row.
inline std::shared_ptr<std::byte> allocate_host(int64_t bytes) {
  const size_t alignment = host_alignment(bytes), rounded = host_allocation(bytes);
  void* memory = std::aligned_alloc(alignment, rounded);
  if (!memory) throw Error(ErrorKind::Environment, format("out of memory: {} could not be allocated", format_bytes(static_cast<double>(bytes))), "use fewer tokens or heads");
  if (alignment == kHugePage) madvise(memory, rounded, MADV_HUGEPAGE);  // a wish: failing costs only time
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

}  // namespace megatoken
