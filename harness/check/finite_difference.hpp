// Finite differences: the judge of every backward. L = Σ outputs · their upstream gradients; each input element is moved
// by ±h and ±2h (five-point rule, error O(h⁴)) and the slope is compared with the gradient that backward gave.
#pragma once
#include <string>
#include <vector>

#include "reference/core/problem.hpp"

namespace megatoken {

struct GradientError {
  std::string gradient;   // "dq"
  double error = 0;       // ‖slope − gradient‖ / max(‖gradient‖, ‖slope‖) over the elements tried; 0 when both are 0
  int64_t compared = 0;
  int64_t worst = 0;      // flat index of the largest difference
};

/// `problem`: host, fp64, filled. Tries every element of every differentiable input, or `max_elements` spread over it.
std::vector<GradientError> finite_difference_errors(const Variant& variant, Problem& problem, int64_t max_elements = 400, double step = 1e-3);

}  // namespace megatoken
