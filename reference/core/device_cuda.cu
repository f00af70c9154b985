// The device functions of a CUDA build.
#include <cuda_runtime.h>

#include <cstring>

#include "reference/core/cuda.hpp"
#include "reference/core/device.hpp"
#include "reference/core/host_memory.hpp"

namespace megatoken {

int gpu_count() {
  static const int count = [] {
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
  }();
  return count;
}

std::string gpu_absence() {
  int n = 0;
  const cudaError_t status = cudaGetDeviceCount(&n);
  return status == cudaSuccess && n > 0 ? "" : format("no usable GPU ({})", cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status));
}

namespace {
cudaDeviceProp properties() {
  cudaDeviceProp p{};
  MEGATOKEN_CUDA(cudaGetDeviceProperties(&p, 0));
  return p;
}
}  // namespace

std::string gpu_name() { return gpu_count() ? properties().name : ""; }
int gpu_architecture() {
  if (!gpu_count()) return 0;
  const auto p = properties();
  return p.major * 10 + p.minor;
}

std::shared_ptr<std::byte> allocate(Device device, int64_t bytes) {
  if (device == Device::Cpu) return allocate_host(bytes);
  if (!gpu_count()) throw Error(ErrorKind::Environment, "GPU memory asked for: " + gpu_absence(), "run on a machine with a GPU");
  void* memory = nullptr;
  MEGATOKEN_CUDA(cudaMalloc(&memory, static_cast<size_t>(bytes > 0 ? bytes : 1)));
  return {static_cast<std::byte*>(memory), [](std::byte* p) { cudaFree(p); }};
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, int64_t bytes) {
  if (bytes <= 0) return;
  if (to_device == Device::Cpu && from_device == Device::Cpu) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  MEGATOKEN_CUDA(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault));
}

void fill_bytes(void* to, Device device, unsigned char value, int64_t bytes) {
  if (bytes <= 0) return;
  if (device == Device::Cpu) {
    std::memset(to, value, static_cast<size_t>(bytes));
    return;
  }
  MEGATOKEN_CUDA(cudaMemset(to, value, static_cast<size_t>(bytes)));
}

void synchronize(Device device) {
  if (device == Device::Gpu && gpu_count()) MEGATOKEN_CUDA(cudaDeviceSynchronize());
}

}  // namespace megatoken
