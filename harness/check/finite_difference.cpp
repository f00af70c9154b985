#include "harness/check/finite_difference.hpp"

#include <algorithm>
#include <cmath>

namespace megatoken {
namespace {

double loss(const Variant& variant, const Problem& problem) {
  run_variant(variant, problem, Phase::Forward);
  const auto& fields = problem.component().fields;
  double sum = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].role != Role::OutputGrad || !problem.views()[i]) continue;
    const TensorView &upstream = problem.views()[i], &output = problem[fields[i].of];
    for (int64_t e = 0, n = upstream.size(); e < n; ++e)
      if (const double value = value_at(output, e); std::isfinite(value)) sum += value_at(upstream, e) * value;  // rows without a key have lse = −inf
  }
  return sum;
}

double slope(const Variant& variant, const Problem& problem, const TensorView& input, int64_t element, double step) {
  const double value = value_at(input, element);
  const auto at = [&](double shift) {
    set_value(input, element, value + shift);
    return loss(variant, problem);
  };
  const double result = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
  set_value(input, element, value);
  return result;
}

}  // namespace

std::vector<GradientError> finite_difference_errors(const Variant& variant, Problem& problem, int64_t max_elements, double step) {
  MEGATOKEN_CHECK(problem.dtype() == DType::F64, "finite differences need an fp64 problem, this one is {}", to_string(problem.dtype()));
  run_variant(variant, problem, Phase::Both);
  const auto& fields = problem.component().fields;
  std::vector<GradientError> errors;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].role != Role::InputGrad || !problem.views()[i]) continue;
    const Tensor gradient = clone(problem.views()[i]);  // the loss runs forward again and may reuse memory
    const TensorView& input = problem[fields[i].of];
    const int64_t n = input.size(), stride = std::max<int64_t>(1, (n + max_elements - 1) / max_elements);
    GradientError result{fields[i].name};
    double difference2 = 0, gradient2 = 0, slope2 = 0, largest = -1;
    for (int64_t e = 0; e < n; e += stride, ++result.compared) {
      const double want = slope(variant, problem, input, e, step), got = value_at(gradient, e);
      const double difference = std::isfinite(got) ? std::abs(want - got) : INFINITY;
      difference2 += difference * difference;
      gradient2 += got * got;
      slope2 += want * want;
      if (difference > largest) largest = difference, result.worst = e;
    }
    const double scale = std::sqrt(std::max(gradient2, slope2));
    // Gradients that are 0 in exact arithmetic leave rounding noise of the slope, about 1e-13/step per unit of loss.
    result.error = scale > 1e-9 ? std::sqrt(difference2) / scale : (std::isfinite(difference2) ? 0 : INFINITY);
    errors.push_back(result);
  }
  return errors;
}

}  // namespace megatoken
