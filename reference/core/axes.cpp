#include "reference/core/axes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

std::vector<std::string> names_of(const std::vector<AxisSpec>& specs) {
  std::vector<std::string> names;
  for (const auto& spec : specs) names.push_back(spec.name);
  return names;
}

std::string format_axis_value(const AxisSpec& spec, double value) {
  const auto index = static_cast<size_t>(value);
  return !spec.choices.empty() && index < spec.choices.size() ? spec.choices[index] : format_number(value);
}

double default_of(const AxisSpec& spec, const Axes& axes, const std::string& component) {
  if (!spec.same_as.empty()) return axes.real(spec.same_as);
  if (spec.fallback) return *spec.fallback;
  throw Error(ErrorKind::Usage, format("{}: axis '{}' ({}) must be given", component, spec.name, spec.about), format("add {}=N", spec.name));
}

void check_axis(const AxisSpec& spec, double value, const std::string& component) {
  const double max = spec.choices.empty() ? spec.max : static_cast<double>(spec.choices.size() - 1);
  const bool fits = value >= spec.min && value <= max && (spec.real || value == std::floor(value));
  if (fits) return;
  throw Error(ErrorKind::Usage, format("{}: axis {}={} is not valid", component, spec.name, format_number(value)),
              format("{} takes {} from {} to {}", spec.name, spec.real ? "a number" : "a whole number", format_number(spec.min), format_number(max)));
}

}  // namespace

Axes::Axes(std::initializer_list<std::pair<std::string, double>> values) {
  for (const auto& [name, value] : values) set(name, value);
}

Axes Axes::parse(std::string_view text) {
  Axes axes;
  for (const auto& word : split(text, ' ')) {
    if (word.empty()) continue;
    const auto equals = word.find('=');
    MEGATOKEN_CHECK(equals != word.npos && equals > 0, "'{}' is not of the form axis=value", word);
    axes.set(word.substr(0, equals), parse_number(std::string_view(word).substr(equals + 1), word));
  }
  return axes;
}

bool Axes::has(std::string_view name) const {
  return std::any_of(values_.begin(), values_.end(), [&](const auto& v) { return v.first == name; });
}

double Axes::real(std::string_view name) const {
  for (const auto& [key, value] : values_)
    if (key == name) return value;
  throw Error(ErrorKind::Usage, format("no axis '{}' here", name));
}

int64_t Axes::operator[](std::string_view name) const { return static_cast<int64_t>(real(name)); }

void Axes::set(std::string_view name, double value) {
  for (auto& [key, old] : values_)
    if (key == name) {
      old = value;
      return;
    }
  values_.emplace_back(name, value);
}

Axes complete_axes(const std::vector<AxisSpec>& specs, const Axes& given, const std::string& component) {
  const auto names = names_of(specs);
  for (const auto& [name, value] : given.values())
    if (std::find(names.begin(), names.end(), name) == names.end()) throw_unknown_name(component + " axis", name, names);
  Axes axes;
  for (const auto& spec : specs) {
    const double value = given.has(spec.name) ? given.real(spec.name) : default_of(spec, axes, component);
    check_axis(spec, value, component);
    axes.set(spec.name, value);
  }
  return axes;
}

std::string format_axes(const std::vector<AxisSpec>& specs, const Axes& axes) {
  std::vector<std::string> words;
  for (const auto& spec : specs) {
    const double value = axes.real(spec.name);
    const bool has_default = spec.fallback || !spec.same_as.empty();
    if ((spec.option || !spec.same_as.empty()) && has_default && value == default_of(spec, axes, "")) continue;
    words.push_back(spec.name + "=" + format_axis_value(spec, value));
  }
  return join(words, " ");
}

double parse_number(std::string_view text, std::string_view where) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  double scale = 1;
  if (unit == "Ki" || unit == "k" || unit == "K") scale = 1024;
  else if (unit == "Mi" || unit == "M") scale = 1024.0 * 1024;
  else if (unit == "Gi" || unit == "G") scale = 1024.0 * 1024 * 1024;
  else if (!unit.empty() || text.empty()) scale = 0;
  if (status != std::errc() || scale == 0)
    throw Error(ErrorKind::Usage, format("'{}' in '{}' is not a number", text, where), "write 4096, 64Ki, 1Mi, 0.5 or 1e-6");
  return value * scale;
}

uint64_t parse_whole(std::string_view text, const std::string& name, uint64_t min, uint64_t max) {
  uint64_t whole = 0;
  const char* end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, whole);
  bool good = status == std::errc() && rest == end;
  if (!good) {  // with a unit, in scientific notation, or not a whole number at all
    const double value = parse_number(text, name + "=" + std::string(text));
    good = value >= 0 && value < 0x1p64 && value == std::floor(value) && status != std::errc::result_out_of_range;
    if (good) whole = static_cast<uint64_t>(value);
  }
  if (good && whole >= min && whole <= max) return whole;
  throw Error(ErrorKind::Usage, format("{}={} is not valid", name, text), format("{} takes a whole number from {} to {}", name, min, max));
}

double parse_axis_value(const AxisSpec& spec, std::string_view text) {
  if (!spec.choices.empty() && !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0]))) {
    const auto found = std::find(spec.choices.begin(), spec.choices.end(), text);
    if (found == spec.choices.end()) throw_unknown_name("value of axis " + spec.name, text, spec.choices);
    return static_cast<double>(found - spec.choices.begin());
  }
  return parse_number(text, spec.name + "=" + std::string(text));
}

std::vector<double> parse_axis_range(const AxisSpec& spec, std::string_view text) {
  std::vector<double> values;
  for (const auto& part : split(text, ',')) {
    const auto fields = split(part, ':');
    if (fields.size() == 1) {
      values.push_back(parse_axis_value(spec, part));
      continue;
    }
    const Error malformed(ErrorKind::Usage, format("range '{}={}' is malformed", spec.name, part), "write start:stop:xF or start:stop:+S, as in 64Ki:1Mi:x2");
    if (fields.size() != 3 || fields[2].size() < 2 || (fields[2][0] != 'x' && fields[2][0] != '+')) throw malformed;
    const double start = parse_axis_value(spec, fields[0]), stop = parse_axis_value(spec, fields[1]);
    const double step = parse_number(std::string_view(fields[2]).substr(1), part);
    const bool times = fields[2][0] == 'x';
    if (stop < start || (times ? step <= 1 || start <= 0 : step <= 0)) throw malformed;
    for (double v = start; v <= stop * (1 + 1e-12); v = times ? v * step : v + step) {
      values.push_back(v);
      if (values.size() > 10000) throw malformed;
    }
  }
  return values;
}

std::string format_number(double value) {
  if (value == std::floor(value) && std::abs(value) < 9e15) return format("{}", static_cast<int64_t>(value));
  char buffer[32];
  const auto [end, status] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, end};
}

}  // namespace megatoken
