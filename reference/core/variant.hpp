// A variant: one implementation of a component. run allocates nothing, prints nothing, synchronises nothing.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reference/core/component.hpp"
#include "reference/core/threads.hpp"

namespace megatoken {

class Communicator;

/// What a call may use besides its tensors.
struct Context {
  int threads = 1;                       // CPU threads
  void* stream = nullptr;                // cudaStream_t of GPU variants
  std::span<std::byte> workspace;        // at least Variant::workspace bytes, 256-byte aligned, contents unspecified, on the variant's device
  Communicator* communicator = nullptr;  // schemes only
};

struct Call {
  const Axes& axes;
  DType dtype;
  std::span<const TensorView> views;  // in field order; absent optional tensors are empty views
  Context& context;
};

struct Variant {
  std::string component, name, about;
  Device device = Device::Cpu;
  std::vector<int> architectures;     // GPU architectures it runs on (90, 100); empty: any
  std::vector<DType> dtypes;
  bool deterministic = true;          // the same call gives the same bits; a check holds it to that
  std::function<std::string(const Axes&, DType)> refuse;           // why a shape is not supported; "" or absent: it is
  std::function<int64_t(const Axes&, DType, Phase)> workspace;     // bytes; absent: none
  std::function<void(const Call&)> forward, backward;              // backward may be absent

  std::string label() const { return component + "/" + name; }
  /// "" or the reason why this machine or this variant cannot run the case.
  std::string unsupported(const Axes& axes, DType dtype, Phase phase) const;
};

const Variant& find_variant(const std::string& component, const std::string& name);
std::vector<const Variant*> variants_of(const std::string& component);

/// The same, with the component's own types: what an implementation file writes down.
template <class Tensors>
struct VariantOf {
  using Shape = typename Tensors::Shape;
  std::string name, about;
  Device device = Device::Cpu;
  std::vector<int> architectures;
  std::vector<DType> dtypes{DType::F64, DType::F32, DType::BF16, DType::F16};
  bool deterministic = true;
  std::function<std::string(const Shape&, DType)> refuse;
  std::function<int64_t(const Shape&, DType, Phase)> workspace;
  std::function<void(const Shape&, const Tensors&, Context&)> forward, backward;
};

template <class Tensors>
Variant make_variant(VariantOf<Tensors> typed) {
  using Shape = typename Tensors::Shape;
  Variant variant{Tensors::kComponent, typed.name, typed.about, typed.device, typed.architectures, typed.dtypes, typed.deterministic, {}, {}, {}, {}};
  if (typed.refuse) variant.refuse = [f = typed.refuse](const Axes& axes, DType dtype) { return f(Shape(axes), dtype); };
  if (typed.workspace) variant.workspace = [f = typed.workspace](const Axes& axes, DType dtype, Phase phase) { return f(Shape(axes), dtype, phase); };
  const auto erase = [](const auto& f) {
    return [f](const Call& call) { f(Shape(call.axes), bind_fields<Tensors>(call.views), call.context); };
  };
  if (typed.forward) variant.forward = erase(typed.forward);
  if (typed.backward) variant.backward = erase(typed.backward);
  return variant;
}

}  // namespace megatoken
