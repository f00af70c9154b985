// Aligned host memory, shared by the builds with and without CUDA.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "reference/core/error.hpp"

namespace megatoken {

inline std::shared_ptr<std::byte> allocate_host(int64_t bytes) {
  constexpr size_t kAlignment = 256;
  const size_t rounded = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  if (!memory) throw Error(ErrorKind::Environment, format("out of memory: {} could not be allocated", format_bytes(static_cast<double>(bytes))), "use fewer tokens or heads");
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

}  // namespace megatoken
