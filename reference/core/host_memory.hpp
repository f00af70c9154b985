// Aligned host memory, shared by the builds with and without CUDA.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "reference/core/error.hpp"

namespace megatoken {

/// Large arrays ask the kernel for huge pages: rows of one head lie a page or more apart, and walking page tables for each of
/// them costs more than reading the row.
inline std::shared_ptr<std::byte> allocate_host(int64_t bytes) {
  constexpr size_t kHugePage = size_t{1} << 21;
  const auto wanted = static_cast<size_t>(bytes);
  const size_t alignment = wanted >= 4 * kHugePage ? kHugePage : 256;
  const size_t rounded = wanted == 0 ? alignment : (wanted + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (!memory) throw Error(ErrorKind::Environment, format("out of memory: {} could not be allocated", format_bytes(static_cast<double>(bytes))), "use fewer tokens or heads");
  if (alignment == kHugePage) madvise(memory, rounded, MADV_HUGEPAGE);  // a wish: failing costs only time
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

}  // namespace megatoken
