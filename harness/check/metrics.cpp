#include "harness/check/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "reference/core/names.hpp"

namespace megatoken {

Comparison compare(const TensorView& got, const TensorView& want, double outlier_limit) {
  MEGATOKEN_CHECK(got.shape == want.shape, "compared tensors have shapes {} and {}", got.shape.to_string(), want.shape.to_string());
  Comparison result;
  const Tensor got64 = convert(got, DType::F64), want64 = convert(want, DType::F64);
  const auto g = got64.span<double>(), w = want64.span<double>();
  result.compared = static_cast<int64_t>(g.size());
  double difference2 = 0, got2 = 0, want2 = 0, dot = 0, largest = -1;
  int64_t finite = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    if (g[i] != w[i]) ++result.wrong;
    if (std::isinf(w[i]) && g[i] == w[i]) continue;
    double difference = std::abs(g[i] - w[i]);
    if (!std::isfinite(g[i]) || !std::isfinite(w[i])) {
      ++result.nonfinite;
      difference = INFINITY;
    } else {
      difference2 += difference * difference;
      got2 += g[i] * g[i];
      want2 += w[i] * w[i];
      dot += g[i] * w[i];
      ++finite;
    }
    if (difference > largest) largest = difference, result.worst = static_cast<int64_t>(i), result.worst_got = g[i], result.worst_want = w[i];
  }
  const double rms = finite > 0 ? std::sqrt(want2 / static_cast<double>(finite)) : 0;
  result.rel_rms = want2 > 0 ? std::sqrt(difference2 / want2) : std::sqrt(difference2);
  result.max_error = largest > 0 ? (rms > 0 ? largest / rms : largest) : 0;
  result.cosine_distance = got2 > 0 && want2 > 0 ? std::max(0.0, 1 - dot / std::sqrt(got2 * want2)) : (got2 == want2 ? 0 : 1);
  int64_t outliers = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    const double scale = std::max(rms, std::abs(w[i])), error = std::abs(g[i] - w[i]);
    if (!(scale > 0) || !std::isfinite(error)) continue;
    result.tail = std::max(result.tail, error / scale);
    outliers += error > outlier_limit * scale;
  }
  if (finite > 0) result.outlier_fraction = static_cast<double>(outliers) / static_cast<double>(finite);
  if (result.nonfinite > 0) result.rel_rms = INFINITY;
  return result;
}

bool same_bits(const TensorView& a, const TensorView& b) {
  MEGATOKEN_CHECK(a.shape == b.shape && a.dtype == b.dtype && a.contiguous() && b.contiguous(), "bitwise comparison of unlike tensors");
  return a.size() == 0 || std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0;
}

std::string coordinate(const std::string& layout, const Dims& shape, int64_t flat) {
  const auto names = split(layout, ' ');
  std::vector<std::string> parts;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const std::string name = static_cast<size_t>(axis) < names.size() ? names[static_cast<size_t>(axis)] : format("{}", axis);
    const int64_t extent = std::max<int64_t>(shape[axis], 1);  // empty tensors have a worst place too: their origin
    parts.push_back(format("{}={}", name, flat % extent));
    flat /= extent;
  }
  std::reverse(parts.begin(), parts.end());
  return join(parts, ",");
}

}  // namespace megatoken
