// A problem: every tensor of one component at given axes and dtype, allocated, with its inputs filled.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "reference/core/component.hpp"
#include "reference/core/variant.hpp"

namespace megatoken {

/// Token ids of distribution `tokens`: a stretch of real or synthetic data that depends on the seed.
using TokenSource = std::function<std::vector<int32_t>(int64_t count, uint64_t seed)>;

class Problem {
 public:
  /// `axes` must be complete. Memory is uninitialised; absent optional tensors are empty views.
  Problem(const Component& component, Axes axes, DType dtype, Device device = Device::Cpu);

  const Component& component() const { return *component_; }
  const Axes& axes() const { return axes_; }
  DType dtype() const { return dtype_; }
  std::span<const TensorView> views() const { return views_; }
  const TensorView& operator[](const std::string& field) const { return views_[component_->index(field)]; }
  /// Puts another tensor (a slice, a guarded buffer) in place of a field; keeps it alive.
  void replace(const std::string& field, Tensor tensor);

  /// Inputs and upstream gradients from the counter-based generator (host problems only). Without a token source,
  /// `tokens` draws ids from a skewed synthetic distribution.
  void fill(const std::string& distribution, uint64_t seed, const TokenSource& tokens = {});

  /// The same inputs (and outputs, if `outputs`) in another dtype or on another device; integer fields keep their dtype.
  Problem converted(DType dtype, bool outputs = false) const;
  Problem on(Device device) const;

 private:
  const Component* component_;
  Axes axes_;
  DType dtype_;
  std::vector<Tensor> tensors_;
  std::vector<TensorView> views_;
};

/// Runs the phases of a variant on a problem that lies on its device, with a workspace allocated here; waits until done.
void run_variant(const Variant& variant, const Problem& problem, Phase phase, int threads = 1);

/// Synthetic ids, Zipf-like over `vocabulary`, so that repeats occur as in text.
std::vector<int32_t> synthetic_tokens(int64_t count, uint64_t seed, int32_t vocabulary = 256);

/// Fills a host tensor with normals of stream `name`, rounded once to its dtype.
void fill_normal(const TensorView& view, uint64_t seed, const std::string& name, double scale = 1, double shift = 0);

}  // namespace megatoken
