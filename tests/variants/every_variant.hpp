// What the tests of every variant share: the CPU variants of the registry, calls on any views, and rows by the token they belong to.
// A report about one kernel is stated once, for all of them; a new variant is tested by being registered.
#pragma once
#include <gtest/gtest.h>

#include <cstring>

#include "reference/core/names.hpp"
#include "tests/compare.hpp"

namespace megatoken::test {

template <class Wanted>
std::vector<const Variant*> cpu_variants(Wanted wanted) {
  std::vector<const Variant*> found;
  for (const Variant* variant : Registry<Variant>::instance().all())
    if (variant->device == Device::Cpu && wanted(*variant)) found.push_back(variant);
  return found;
}
inline std::vector<const Variant*> cpu_variants() {
  return cpu_variants([](const Variant&) { return true; });
}

inline std::string variant_name(const testing::TestParamInfo<const Variant*>& info) { return info.param->component + "_" + info.param->name; }

/// The axes at which planted faults are judged: every feature on, quick. `more` replaces some of them where the component has them.
inline Axes judging_axes(const Component& component, const std::string& more = "") {
  Axes axes = Axes::parse(component.judging);
  const Axes others = Axes::parse(more);
  for (const auto& [name, value] : others.values())
    for (const AxisSpec& spec : component.axes)
      if (spec.name == name) axes.set(name, value);
  return component.complete(axes);
}

inline Problem judging_problem(const Variant& variant, DType dtype = DType::F32, const std::string& more = "", const std::string& distribution = "normal") {
  const Component& component = find_component(variant.component);
  Problem problem(component, judging_axes(component, more), dtype);
  problem.fill(distribution, 7);
  return problem;
}

inline Phase phases_of(const Variant& variant) { return variant.backward ? Phase::Both : Phase::Forward; }

/// One phase on tensors that lie anywhere, in a workspace that holds `garbage`.
inline void call(const Variant& variant, const Axes& axes, DType dtype, std::span<const TensorView> views, Phase phase, int threads = 2, unsigned char garbage = 0xff) {
  for (const Phase one : {Phase::Forward, Phase::Backward}) {
    if (phase != Phase::Both && phase != one) continue;
    const Tensor workspace(DType::U8, {variant.workspace ? variant.workspace(axes, dtype, one) : 0});
    std::memset(workspace->data, garbage, static_cast<size_t>(workspace->bytes()));
    Context context{.threads = threads, .workspace = {static_cast<std::byte*>(workspace->data), static_cast<size_t>(workspace->bytes())}};
    const Call arguments{axes, dtype, views, context};
    one == Phase::Forward ? variant.forward(arguments) : variant.backward(arguments);
  }
}

inline bool is_given(const Field& field) { return field.role == Role::Input || field.role == Role::OutputGrad; }
inline bool is_number(const Field& field) { return field.kind != Kind::Index; }

/// Equal bits, whatever the strides; NaNs count as equal to themselves.
inline bool equal(const TensorView& a, const TensorView& b) {
  const Tensor x = clone(a), y = clone(b);
  return a.dtype == b.dtype && a.shape == b.shape && (x->bytes() == 0 || std::memcmp(x->data, y->data, static_cast<size_t>(x->bytes())) == 0);
}

/// Results of two runs that should be one: equal bits, or what atomics may change where a variant says that it is not deterministic.
inline bool same_result(const Variant& variant, const TensorView& a, const TensorView& b) {
  return equal(a, b) || (!variant.deterministic && is_float(a.dtype) && relative_rms(a, b) <= 1e-5);
}

/// Tokens that one row of a tensor's axis stands for: 1 for tokens, `pool` for "t/pool", 0 where the axis is no token axis.
inline int64_t tokens_a_row(const Component& component, const Axes& axes, const std::string& word) {
  const auto parts = split(word, '/');
  for (const auto& token : component.token_axes)
    if (parts[0] == token) return parts.size() > 1 ? axes[parts[1]] : 1;
  return 0;
}

/// Calls visit(axis, tokens a row) for the token axis of a field, if it has one.
template <class Visit>
void with_token_axis(const Component& component, const Axes& axes, const Field& field, Visit visit) {
  const auto words = split(field.axes, ' ');
  for (size_t i = 0; i < words.size(); ++i)
    if (const int64_t tokens = tokens_a_row(component, axes, words[i]); tokens > 0) return visit(static_cast<int>(i), tokens);
}

}  // namespace megatoken::test
