// The clock of a GPU: a pair of CUDA events around one call, so that the host's launch time is not counted.
#include <cuda_runtime.h>

#include "harness/measure/timer.hpp"
#include "reference/core/cuda.hpp"

namespace megatoken {
namespace {

struct Event {
  cudaEvent_t handle{};
  Event() { MEGATOKEN_CUDA(cudaEventCreate(&handle)); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

struct Stream {
  cudaStream_t handle{};
  Stream() { MEGATOKEN_CUDA(cudaStreamCreate(&handle)); }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

}  // namespace

double gpu_call_seconds(const std::function<void(void*)>& call) {
  static thread_local Stream stream;
  Event start, stop;
  MEGATOKEN_CUDA(cudaEventRecord(start.handle, stream.handle));
  call(stream.handle);
  MEGATOKEN_CUDA(cudaEventRecord(stop.handle, stream.handle));
  MEGATOKEN_CUDA(cudaEventSynchronize(stop.handle));
  float milliseconds = 0;
  MEGATOKEN_CUDA(cudaEventElapsedTime(&milliseconds, start.handle, stop.handle));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace megatoken
