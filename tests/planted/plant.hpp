// Ways to corrupt a right variant without writing it again: change what goes in, or what comes out.
// All of them work for host and device tensors.
#pragma once
#include <functional>
#include <string>

#include "harness/check/fault.hpp"

namespace megatoken::plant {

/// The tensors of one call, by name, as host copies that are written back after editing.
class Editor {
 public:
  Editor(const Component& component, const Call& call) : component_(component), call_(call) {}
  const Axes& axes() const { return call_.axes; }
  /// Edits a tensor in place (its own memory; use Inputs below to leave a caller's inputs alone).
  void edit(const std::string& field, const std::function<void(const TensorView& host)>& change) const;
  bool has(const std::string& field) const;

 private:
  const Component& component_;
  const Call& call_;
};

using Edit = std::function<void(const Editor&)>;

/// Runs the truth on other axes (a forgotten option, another scale, a wrong epsilon). Shapes must stay as they are.
Variant with_axes(const Variant& truth, std::function<void(Axes&)> change);
/// Runs the truth on copies of some inputs that `change` has corrupted; outputs go to the caller's tensors.
/// `fields` may also name forward outputs that backward reads (stale statistics).
Variant with_inputs(const Variant& truth, std::vector<std::string> fields, Edit change, Phase when = Phase::Both);
/// Runs the truth, then corrupts its results.
Variant with_outputs(const Variant& truth, Edit change, Phase when = Phase::Both);
/// Replaces one phase by a wrong loop of its own.
Variant with_forward(const Variant& truth, std::function<void(const Call&)> forward);
Variant with_backward(const Variant& truth, std::function<void(const Call&)> backward);

}  // namespace megatoken::plant
