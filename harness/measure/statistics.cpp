#include "harness/measure/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

/// Linear interpolation between order statistics.
double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Summary summarise(std::vector<double> samples) {
  MEGATOKEN_CHECK(!samples.empty(), "no samples to summarise");
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  // Ranks of a binomial(n, 1/2) by its normal approximation; with few samples the whole range.
  const double half = 0.98 * std::sqrt(n);
  const auto low = static_cast<size_t>(std::max(0.0, std::floor((n - 1) / 2 - half)));
  const auto high = static_cast<size_t>(std::min(n - 1, std::ceil((n - 1) / 2 + half)));
  return {quantile(samples, 0.5), quantile(samples, 0.25), quantile(samples, 0.75), samples.front(), samples[low], samples[high], static_cast<int64_t>(samples.size())};
}

std::string StopRule::stop(const std::vector<double>& samples, double elapsed) const {
  if (samples.empty()) return "";
  const auto n = static_cast<int64_t>(samples.size());
  if (n >= max_samples) return "max_samples";
  const Summary s = summarise(samples);
  const int64_t needed = s.median > 1 ? min_samples_slow : min_samples;
  if (n >= needed && s.high - s.median <= relative_interval * s.median && s.median - s.low <= relative_interval * s.median) return "precise";
  return elapsed >= timeout ? "timeout" : "";
}

double log_slope(const std::vector<double>& x, const std::vector<double>& y) {
  MEGATOKEN_CHECK(x.size() == y.size() && x.size() >= 2, "a slope needs at least two points");
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  const auto n = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = std::log(x[i]), b = std::log(y[i]);
    sx += a, sy += b, sxx += a * a, sxy += a * b;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

}  // namespace megatoken
