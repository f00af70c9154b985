// Small corruptions of one host tensor, shared by the faults.
#pragma once
#include <cmath>

#include "tests/planted/plant.hpp"

namespace megatoken::plant {

inline void add(const TensorView& view, double value) {
  for (int64_t i = 0, n = view.size(); i < n; ++i) set_value(view, i, value_at(view, i) + value);
}

inline void scale(const TensorView& view, double factor) {
  for (int64_t i = 0, n = view.size(); i < n; ++i) set_value(view, i, factor * value_at(view, i));
}

inline void zero(const TensorView& view) { fill(view, 0); }

/// Keeps `bits` bits behind the leading one: 7 is bf16, 10 is TF32.
inline void round_to_bits(const TensorView& view, int bits) {
  for (int64_t i = 0, n = view.size(); i < n; ++i) {
    int exponent = 0;
    const double mantissa = std::frexp(value_at(view, i), &exponent);
    set_value(view, i, std::ldexp(std::round(std::ldexp(mantissa, bits + 1)), exponent - bits - 1));
  }
}

/// Last index of axis 1 (tokens of "b t …"), or of axis 0 for vectors.
inline void zero_last_row(const TensorView& view) {
  const int axis = view.shape.rank() > 1 ? 1 : 0;
  fill(view.slice(axis, view.shape[axis] - 1, view.shape[axis]), 0);
}

/// Entry i becomes entry i − 1 along an axis; the first stays.
inline void shift_by_one(const TensorView& view, int axis) {
  const Tensor before = clone(view);
  const int64_t n = view.shape[axis];
  copy(before->slice(axis, 0, n - 1), view.slice(axis, 1, n));
}

/// A fault that scales or replaces one result.
inline Variant with_output(const Variant& truth, const std::string& field, std::function<void(const TensorView&)> change) {
  const Component& component = find_component(truth.component);
  const Phase when = component.fields[component.index(field)].role == Role::Output ? Phase::Forward : Phase::Backward;
  return with_outputs(truth, [field, change](const Editor& e) { e.edit(field, change); }, when);
}

/// A fault that sees one input wrongly.
inline Variant with_input(const Variant& truth, const std::string& field, std::function<void(const TensorView&)> change, Phase when = Phase::Both) {
  return with_inputs(truth, {field}, [field, change](const Editor& e) { e.edit(field, change); }, when);
}

/// A fault that runs with another option.
inline Variant with_axis(const Variant& truth, const std::string& axis, double value) {
  return with_axes(truth, [axis, value](Axes& axes) { axes.set(axis, value); });
}

}  // namespace megatoken::plant
