// Text formatting: fmt's compile-time checked format strings, with the engine compiled once (format.cpp).
#pragma once
#include <fmt/core.h>

#include <string>

namespace megatoken {

std::string vformat(fmt::string_view text, fmt::format_args args);

template <class... T>
std::string format(fmt::format_string<T...> text, T&&... args) {
  return vformat(text, fmt::make_format_args(args...));
}

/// 65536 → "64Ki", 1000 → "1000": a count, shortened only when a binary unit divides it exactly.
std::string format_count(int64_t count);
/// 1610612736 → "1.5 GiB".
std::string format_bytes(double bytes);
/// 0.00123 → "1.23 ms".
std::string format_seconds(double seconds);

}  // namespace megatoken
