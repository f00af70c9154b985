// What tests of components share: problems in one line, and one number for how far two tensors are apart.
#pragma once
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "reference/core/problem.hpp"

namespace megatoken::test {

/// ‖got − want‖ / ‖want‖; ‖got‖ when want is zero everywhere; infinite when got is not finite, except for the infinities of want.
inline double relative_rms(const TensorView& got, const TensorView& want) {
  MEGATOKEN_CHECK(got.shape == want.shape, "shapes differ: {} and {}", got.shape.to_string(), want.shape.to_string());
  double difference2 = 0, want2 = 0;
  for (int64_t i = 0, n = want.size(); i < n; ++i) {
    const double a = value_at(got, i), b = value_at(want, i);
    if (std::isinf(a) && a == b) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
    difference2 += (a - b) * (a - b);
    want2 += b * b;
  }
  return want2 > 0 ? std::sqrt(difference2 / want2) : std::sqrt(difference2);
}

inline Problem filled(const std::string& component, const std::string& axes, DType dtype = DType::F64, const std::string& distribution = "normal",
                      uint64_t seed = 7) {
  const Component& c = find_component(component);
  Problem problem(c, c.complete(Axes::parse(axes)), dtype);
  problem.fill(distribution, seed);
  return problem;
}

/// Same inputs, its own outputs, other axes (shapes must fit).
inline Problem with_inputs_of(const Problem& from, const std::string& axes) {
  const Component& c = from.component();
  Problem to(c, c.complete(Axes::parse(axes)), from.dtype());
  for (const auto& field : c.fields)
    if ((field.role == Role::Input || field.role == Role::OutputGrad) && to[field.name]) copy(from[field.name], to[field.name]);
  return to;
}

inline bool is_result(const Field& field) { return field.role == Role::Output || field.role == Role::InputGrad; }

/// Worst relative RMS over all outputs and gradients that both problems have.
inline double worst_difference(const Problem& got, const Problem& want) {
  double worst = 0;
  for (const auto& field : want.component().fields)
    if (is_result(field) && want[field.name]) worst = std::max(worst, relative_rms(got[field.name], want[field.name]));
  return worst;
}

/// The message of the error that `action` throws; "" when it throws none.
inline std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace megatoken::test
