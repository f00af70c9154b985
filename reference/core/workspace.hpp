// Scratch tensors laid one after the other into memory that the caller gave. Without memory it only counts, so that one function
// both measures what an algorithm needs and hands it out.
#pragma once
#include <cstddef>
#include <span>

#include "reference/core/tensor.hpp"

namespace megatoken {

class Workspace {
 public:
  static constexpr int64_t kAlignment = 256;

  Workspace() = default;
  explicit Workspace(std::span<std::byte> memory, Device device = Device::Cpu) : memory_(memory), device_(device) {}

  /// Uninitialised; without memory its data is null.
  TensorView take(DType dtype, const Dims& shape) {
    TensorView view(memory_.data() ? memory_.data() + used_ : nullptr, dtype, shape, device_);
    used_ += (view.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    MEGATOKEN_CHECK(!memory_.data() || used_ <= static_cast<int64_t>(memory_.size()), "a workspace of {} bytes is too small: at least {} are needed", memory_.size(),
                    used_);
    return view;
  }
  int64_t used() const { return used_; }
  std::span<std::byte> rest() const { return memory_.subspan(static_cast<size_t>(used_)); }

 private:
  std::span<std::byte> memory_;
  Device device_ = Device::Cpu;
  int64_t used_ = 0;
};

}  // namespace megatoken
