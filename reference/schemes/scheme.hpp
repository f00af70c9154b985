// A scheme: one way to spread a component over ranks. Tensors with a token axis are sharded by the scheme's layout, index
// tensors (documents, positions) are known whole to every rank, all others are replicated and their gradients are summed.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/core/variant.hpp"
#include "reference/schemes/layout.hpp"

namespace megatoken {

struct SchemeCall {
  const Component& component;
  const Variant& block;                    // computes on this rank
  const Axes& global;                      // complete axes of the whole problem
  const Axes& local;                       // the same with the token axes at layout.local_rows()
  DType dtype;
  const Layout& layout;
  std::span<const TensorView> views;       // this rank's tensors, in field order
  std::span<const TensorView> whole_index; // Index fields of the whole problem (others empty), in field order
  Communicator& communicator;
  Context& context;
};

struct Scheme {
  std::string name, component, about;      // component "*": any with token axes
  bool deterministic = true;               // run to run, for a fixed number of ranks
  std::function<std::string(const Component&, const Axes&, int ranks)> refuse;  // why a case is not supported; "" or absent: it is
  std::function<Layout(const Component&, const Axes&, int ranks)> layout;
  std::function<void(const SchemeCall&)> forward, backward;
  /// Bytes of Context::workspace that one rank needs, those of the block variant included; absent: none.
  std::function<int64_t(const Variant& block, const Axes& local, DType, int ranks, Phase)> workspace;
  /// Bytes one rank sends in forward or backward: what the ledger must show, exactly.
  std::function<int64_t(const Component&, const Axes&, DType, int ranks, Phase)> bytes_sent;

  std::string label() const { return component + "@" + name; }
};

/// The axes of one rank: every token axis at the layout's local rows.
Axes local_axes(const Component& component, const Axes& global, const Layout& layout);
/// Position of the token axis in the layout of a field, −1 when the field has none: it is replicated.
int token_axis(const Component& component, const Field& field);

/// The scheme of that name for a component: its own, or one for every component. Throws with the nearest names.
const Scheme& find_scheme(const std::string& component, const std::string& name);
std::vector<const Scheme*> schemes_of(const std::string& component);

}  // namespace megatoken
