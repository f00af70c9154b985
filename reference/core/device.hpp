// Raw memory on a device and copies between devices. Without CUDA (device_none.cpp) the GPU functions say so.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "reference/core/tensor.hpp"

namespace megatoken {

/// GPUs this process can use; 0 without CUDA or without a driver.
int gpu_count();
/// Why gpu_count() is 0: "built without CUDA", "no GPU driver".
std::string gpu_absence();
/// "NVIDIA H200"; "" when there is none.
std::string gpu_name();
/// Compute capability × 10: 90 for Hopper, 100 for Blackwell; 0 without a GPU.
int gpu_architecture();

/// 256-byte aligned memory; throws an Environment error when it cannot be had.
std::shared_ptr<std::byte> allocate(Device device, int64_t bytes);
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, int64_t bytes);
void fill_bytes(void* to, Device device, unsigned char value, int64_t bytes);
/// Waits for all work on the device and throws what went wrong in it.
void synchronize(Device device);

}  // namespace megatoken
