// Robust statistics of timing samples.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace megatoken {

struct Summary {
  double median = 0, q25 = 0, q75 = 0, min = 0;
  double low = 0, high = 0;  // 95 % interval of the median, from order statistics (no normality assumed)
  int64_t samples = 0;
};

/// Samples in any order; at least one.
Summary summarise(std::vector<double> samples);

/// When to stop sampling.
struct StopRule {
  int64_t min_samples = 10;
  int64_t min_samples_slow = 3;   // when one call takes longer than a second
  int64_t max_samples = 200;
  double relative_interval = 0.02;
  double timeout = 20;            // seconds of sampling

  /// "" to go on, else "precise", "max_samples" or "timeout".
  std::string stop(const std::vector<double>& samples, double elapsed) const;
};

/// Slope of log(y) over log(x) by least squares: 1 for linear, 2 for quadratic growth. Needs two points.
double log_slope(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace megatoken
