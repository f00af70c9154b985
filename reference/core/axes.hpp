// Axes: the named numbers that fix the shape and the options of one problem (t=65536 h=8 causal=1 scale=0.125).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace megatoken {

/// What a component says about one of its axes.
struct AxisSpec {
  std::string name;
  std::string about;                        // meaning, for lists and HDF5 column descriptions
  std::optional<double> fallback;           // value when not given; none: the axis must be given
  std::string same_as;                      // default: the value of this earlier axis (dv same as d)
  double min = 0, max = 1e15;
  bool real = false;                        // scale, eps …; all others are integers
  bool option = false;                      // shown in keys only when it differs from its default
  std::vector<std::string> choices;         // named values 0, 1, …; written by name
};

/// Ordered name → value. Integers up to 2^53 are exact.
class Axes {
 public:
  Axes() = default;
  Axes(std::initializer_list<std::pair<std::string, double>> values);
  /// "t=64Ki h=8 causal=0": separated by blanks. Ki Mi Gi and k M G are powers of 1024.
  static Axes parse(std::string_view text);

  bool has(std::string_view name) const;
  /// Throws a usage error for an absent name.
  double real(std::string_view name) const;
  int64_t operator[](std::string_view name) const;
  void set(std::string_view name, double value);
  const std::vector<std::pair<std::string, double>>& values() const { return values_; }
  bool operator==(const Axes&) const = default;

 private:
  std::vector<std::pair<std::string, double>> values_;
};

/// Adds defaults in the order of `specs` and checks names and ranges; choices may be given by name through parse_axis_value.
Axes complete_axes(const std::vector<AxisSpec>& specs, const Axes& given, const std::string& component);

/// "t=65536 h=8 scale=0.5": all axes but options at their default; `axes` must be complete.
std::string format_axes(const std::vector<AxisSpec>& specs, const Axes& axes);

/// One number: 4096, 64Ki, 1M, 0.125, 1e-6. Throws a usage error that names `where`.
double parse_number(std::string_view text, std::string_view where);
/// A whole number from `min` to `max`, exact up to 2^64 - 1; units as above. Throws a usage error that names `name`.
uint64_t parse_whole(std::string_view text, const std::string& name, uint64_t min, uint64_t max);
/// A number, or the name of a choice.
double parse_axis_value(const AxisSpec& spec, std::string_view text);
/// "64Ki:1Mi:x2" (times), "0:64:+16" (plus), "1,2,4", "65536": every value of a sweep axis.
std::vector<double> parse_axis_range(const AxisSpec& spec, std::string_view text);
/// Integral values without a point, others with the fewest digits that read back equal.
std::string format_number(double value);

}  // namespace megatoken
