#define FMT_HEADER_ONLY
#include "reference/core/format.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace megatoken {

std::string format_erased(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

std::string format_count(int64_t count) {
  constexpr std::array<std::pair<int64_t, const char*>, 3> kUnits{{{int64_t{1} << 30, "Gi"}, {int64_t{1} << 20, "Mi"}, {1024, "Ki"}}};
  for (auto [size, name] : kUnits)
    if (count >= size && count % size == 0) return format("{}{}", count / size, name);
  return format("{}", count);
}

std::string format_bytes(double bytes) {
  constexpr std::array<const char*, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < kUnits.size()) bytes /= 1024, ++unit;
  return unit == 0 ? format("{:.0f} B", bytes) : format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (!(std::abs(seconds) < 1e9)) return format("{}", seconds);
  if (std::abs(seconds) >= 1) return format("{:.2f} s", seconds);
  if (std::abs(seconds) >= 1e-3) return format("{:.2f} ms", seconds * 1e3);
  return format("{:.2f} us", seconds * 1e6);
}

}  // namespace megatoken
