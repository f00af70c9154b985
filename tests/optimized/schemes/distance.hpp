// How far the results of a scheme are from those of one rank. Unlike tests/compare.hpp it takes infinities, which lse has.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "reference/schemes/run_scheme.hpp"
#include "tests/compare.hpp"

namespace megatoken {

inline const std::vector<std::string> kForward{"o", "lse"}, kBackward{"dq", "dk", "dv"}, kResults{"o", "lse", "dq", "dk", "dv"};

struct Distance {
  double rms = 0;      // ‖x − r‖ / ‖r‖
  double largest = 0;  // max |x − r| / max |r|
  int64_t wrong = 0;   // elements that are not equal
};

/// Infinities must agree exactly and do not count further; a NaN makes everything NaN.
inline Distance distance(const TensorView& x, const TensorView& reference) {
  double difference = 0, norm = 0, largest = 0, scale = 0;
  Distance result;
  for (int64_t i = 0; i < reference.size(); ++i) {
    const double a = value_at(x, i), b = value_at(reference, i);
    result.wrong += !(a == b);
    if (a == b && std::isinf(b)) continue;
    difference += (a - b) * (a - b);
    norm += b * b;
    largest = std::fmax(largest, std::abs(a - b));
    scale = std::fmax(scale, std::abs(b));
  }
  result.rms = difference == 0 ? 0 : std::sqrt(difference / norm);
  result.largest = largest == 0 ? 0 : largest / scale;
  return result;
}

inline void expect_close(const Problem& result, const Problem& reference, double limit, const std::vector<std::string>& names = kResults) {
  for (const auto& name : names) {
    const Distance error = distance(result[name], reference[name]);
    EXPECT_LE(error.rms, limit) << name;
    EXPECT_LE(error.largest, 10 * limit) << name;
  }
}

}  // namespace megatoken
