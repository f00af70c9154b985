// The contract of a component: named axes, named tensors, cost, input distributions, and which samples of its
// output can be recomputed alone. Its header declares
//   struct Shape   { int64_t b, t, …; explicit Shape(const Axes&); };
//   struct Tensors { using Shape = …; TensorView q, k, …; static std::vector<FieldOf<Tensors>> fields(); };
// and its description() is registered once. Everything else (allocation, random inputs, dumps, plugin order, HDF5 names,
// error messages, checks) follows from the field list.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reference/core/axes.hpp"
#include "reference/core/dtype.hpp"
#include "reference/core/registry.hpp"
#include "reference/core/tensor.hpp"

namespace megatoken {

enum class Phase : uint8_t { Forward, Backward, Both };
std::string to_string(Phase phase);  // "fwd" "bwd" "fwd_bwd"
Phase parse_phase(const std::string& name);

enum class Role : uint8_t {
  Input,       // given
  Output,      // result of forward; backward may read it
  OutputGrad,  // upstream gradient of an output, given to backward
  InputGrad,   // result of backward
};

/// Element type of a field relative to the case.
enum class Kind : uint8_t {
  Data,    // the case's dtype
  Accum,   // fp64 for fp64 cases, else fp32: log-sum-exp, states, statistics, master weights
  Index,   // int32: positions, documents, ids, labels; the component fills it; every rank of a scheme knows it whole
};

struct Field {
  std::string name;   // "q"; a gradient is "dq" of "q"
  Role role = Role::Input;
  std::string axes;   // layout, blank separated: axis names or integers, "b t h d"
  Kind kind = Kind::Data;
  std::string of;     // gradients: the field they belong to
  std::string when;   // present only if this axis is non-zero, or with "!axis" zero; "" always
};

DType dtype_of(const Field& field, DType case_dtype);

struct Cost {
  double flops = 0;
  double bytes = 0;  // each input read once, each output written once
};

/// Where a component's inputs come from.
struct FillRequest {
  const Axes& axes;
  DType dtype;
  std::string distribution;  // normal | aimed | extreme | tokens | exact
  uint64_t seed;
  std::span<const TensorView> views;                                   // host tensors, in field order
  std::function<std::vector<int32_t>(int64_t count)> tokens;           // real or synthetic token ids, for `tokens`
};

/// A part of the output that can be recomputed from a part of the input: the strategies rows, cols, scan.
struct Slice {
  std::string strategy;              // "rows" "cols" "scan"
  std::string axis;                  // every field with this axis is gathered along it
  std::vector<std::string> outputs;  // outputs and gradients that stay right when only some indices are kept
  bool given_forward = false;        // forward outputs are taken from the variant (already judged), not recomputed
};

struct Component {
  std::string name, about;
  std::vector<AxisSpec> axes;
  std::vector<Field> fields;
  std::function<void(const Axes&)> validate;                           // throws for axes that do not fit together
  std::function<Cost(const Axes&, DType, Phase)> cost;
  std::function<void(const FillRequest&)> fill;                        // after every float input was filled with normals
  std::vector<std::string> distributions{"normal", "aimed", "extreme", "tokens"};
  std::vector<Slice> slices;
  /// Token axes: cutting them short must not change what comes before (strategy prefix); "" when not causal.
  std::function<bool(const Axes&)> causal;
  std::vector<std::string> token_axes;                                 // {"t", "s"}: what a sequence is sharded along
  /// Axes of the same problem cut to its first `tokens` tokens; absent: every token axis is cut. Used by prefix and shift.
  std::function<Axes(const Axes&, int64_t tokens)> shorten;
  /// Axis that, when not 0, brings a state in front of token 0 and takes one out behind the last; "": none.
  std::string carry;
  std::vector<std::string> examples;                                   // small axis strings at the borders, for exhaustive tests
  std::string judging;                                                 // axes at which planted faults are judged: every feature on, quick

  const std::string& label() const { return name; }
  /// False for operations without a backward, such as an optimizer step or a selection.
  bool has_gradients() const;
  /// Index into fields; throws for unknown names.
  size_t index(const std::string& field) const;
  /// Complete axes with defaults, checked.
  Axes complete(const Axes& given) const;
  bool present(const Field& field, const Axes& axes) const;
  Axes shortened(const Axes& axes, int64_t tokens) const;
  Dims shape(const Field& field, const Axes& axes) const;
  /// Position of an axis in the layout of a field, −1 when it has none.
  static int axis_position(const Field& field, const std::string& axis);
};

const Component& find_component(const std::string& name);  // throws with the nearest names

/// A field together with the struct member that holds its view.
template <class Tensors>
struct FieldOf {
  Field field;
  TensorView Tensors::*member;
};

template <class Tensors>
std::vector<Field> erase_fields() {
  std::vector<Field> fields;
  for (const auto& f : Tensors::fields()) fields.push_back(f.field);
  return fields;
}

/// Views in field order → the typed struct.
template <class Tensors>
Tensors bind_fields(std::span<const TensorView> views) {
  static const auto fields = Tensors::fields();
  Tensors tensors;
  MEGATOKEN_CHECK(views.size() == fields.size(), "{} tensors given, {} expected", views.size(), fields.size());
  for (size_t i = 0; i < fields.size(); ++i) tensors.*(fields[i].member) = views[i];
  return tensors;
}

/// The typed struct → views in field order.
template <class Tensors>
std::vector<TensorView> list_views(const Tensors& tensors) {
  std::vector<TensorView> views;
  for (const auto& field : Tensors::fields()) views.push_back(tensors.*(field.member));
  return views;
}

}  // namespace megatoken
