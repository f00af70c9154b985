// CUDA calls as exceptions, for .cu files only.
#pragma once
#include <cuda_runtime.h>

#include "reference/core/error.hpp"

namespace megatoken {

inline void check_cuda(cudaError_t status, const char* call, std::source_location place = std::source_location::current()) {
  if (status == cudaSuccess) return;
  throw Error(ErrorKind::Environment, format("{} failed: {}", call, cudaGetErrorString(status)),
              status == cudaErrorMemoryAllocation ? "use fewer tokens or heads" : "run the case under compute-sanitizer", place);
}

}  // namespace megatoken

#define MEGATOKEN_CUDA(call) ::megatoken::check_cuda((call), #call)
/// After a kernel launch: reports a refused launch; synchronising is the caller's business.
#define MEGATOKEN_LAUNCHED(kernel) ::megatoken::check_cuda(cudaGetLastError(), #kernel " launch")
