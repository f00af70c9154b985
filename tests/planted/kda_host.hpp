// What faults of kda with loops of their own work on.
#pragma once
#include <vector>

#include "reference/components/kda/kda.hpp"
#include "reference/core/device.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::plant {

/// The call's tensors as fp64 host copies, for loops that are wrong on purpose.
struct HostCopy {
  std::vector<Tensor> copies;
  std::vector<TensorView> views;
  kda::Tensors x;

  explicit HostCopy(const Call& call) {
    for (const TensorView& view : call.views) {
      if (!view) copies.emplace_back();
      else if (view.dtype == DType::I32) copies.push_back(to_device(view, Device::Cpu));
      else copies.push_back(convert(to_device(view, Device::Cpu), DType::F64));
      views.push_back(copies.back().view());
    }
    x = bind_fields<kda::Tensors>(views);
  }
  static void write(const TensorView& from, const TensorView& to) { copy(convert(from, to.dtype), to); }
};

}  // namespace megatoken::plant
