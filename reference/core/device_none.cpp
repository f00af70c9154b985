// The device functions of a build without CUDA; device_cuda.cu replaces them.
#ifndef MEGATOKEN_WITH_CUDA
#include "reference/core/device.hpp"
#include "reference/core/host_memory.hpp"

#include <cstring>

namespace megatoken {

int gpu_count() { return 0; }
std::string gpu_absence() { return "built without CUDA"; }
std::string gpu_name() { return ""; }
int gpu_architecture() { return 0; }

namespace {
void require_host(Device device) {
  if (device != Device::Cpu) throw Error(ErrorKind::Environment, "GPU memory asked for in a build without CUDA", "build with ./run build cuda");
}
}  // namespace

std::shared_ptr<std::byte> allocate(Device device, int64_t bytes) {
  require_host(device);
  return allocate_host(bytes);
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, int64_t bytes) {
  require_host(to_device);
  require_host(from_device);
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void fill_bytes(void* to, Device device, unsigned char value, int64_t bytes) {
  require_host(device);
  if (bytes > 0) std::memset(to, value, static_cast<size_t>(bytes));
}

void synchronize(Device) {}

}  // namespace megatoken
#endif
