// One kernel for every naive GPU loop: body(i) for every i of [0, count), one thread each.
//   launch(count, context.stream, "attention dq", [=] __device__(int64_t i) { … });
#pragma once
#include <algorithm>
#include <cstdint>

#include "reference/core/cuda.hpp"

namespace megatoken {

/// Grid-stride: any count works with any grid; the index is 64-bit before it is multiplied.
template <class Body>
__global__ void for_each_index(int64_t count, Body body) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

/// Enqueues the loop on `stream` (a cudaStream_t) and reports a refused launch; does not wait. `what` names the loop in errors.
template <class Body>
void launch(int64_t count, void* stream, const char* what, Body body) {
  if (count <= 0) return;  // an empty grid is an error in CUDA
  constexpr int64_t kThreads = 128, kMaxBlocks = int64_t{1} << 24;
  const int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMaxBlocks);
  for_each_index<<<static_cast<unsigned>(blocks), static_cast<unsigned>(kThreads), 0, static_cast<cudaStream_t>(stream)>>>(count, body);
  check_cuda(cudaGetLastError(), what);
}

/// The device side of reference/core/loops.hpp.
struct GpuLoop {
  void* stream = nullptr;

  template <class Body>
  void operator()(int64_t count, const char* what, Body body) const {
    launch(count, stream, what, body);
  }
};

}  // namespace megatoken
