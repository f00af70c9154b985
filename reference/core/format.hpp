// Text formatting: fmt's compile-time checked format strings, with the engine compiled once (format.cpp).
#pragma once
#ifdef __CUDACC__
#define FMT_USE_CONSTEXPR 1
#define FMT_CONSTEVAL  // nvcc rejects the compile-time check of format strings; the host compiler still does it in .cpp files
#endif
#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace megatoken {

std::string format_erased(fmt::string_view text, fmt::format_args args);

/// format("{} of {}", 3, "x"). An object, not a function: argument-dependent lookup must not find std::format beside it.
struct Format {
  template <class... T>
  std::string operator()(fmt::format_string<T...> text, T&&... args) const {
    return format_erased(text, fmt::make_format_args(args...));
  }
};
inline constexpr Format format;

/// 65536 → "64Ki", 1000 → "1000": a count, shortened only when a binary unit divides it exactly.
std::string format_count(int64_t count);
/// 1610612736 → "1.5 GiB".
std::string format_bytes(double bytes);
/// 0.00123 → "1.23 ms".
std::string format_seconds(double seconds);

}  // namespace megatoken
