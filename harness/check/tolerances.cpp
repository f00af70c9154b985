#include "harness/check/tolerances.hpp"

#include <ctime>
#include <toml++/toml.h>

#include "reference/core/names.hpp"

namespace megatoken {

extern const std::string_view kTolerancesToml;  // reference/tolerances.toml, embedded by the build

namespace {

void check_keys(const toml::table& table, const std::vector<std::string>& valid, const std::string& where) {
  for (const auto& [key, value] : table)
    if (std::find(valid.begin(), valid.end(), std::string(key.str())) == valid.end()) throw_unknown_name("key in " + where, key.str(), valid);
}

double number(const toml::node_view<const toml::node>& node, const std::string& where) {
  const auto value = node.value<double>();
  MEGATOKEN_CHECK(value && *value >= 0, "{} must be a number ≥ 0", where);
  return *value;
}

}  // namespace

Tolerances Tolerances::parse(std::string_view text, const std::string& source, const std::string& today) {
  toml::table root;
  try {
    root = toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::Usage, format("{}:{}: {}", source, error.source().begin.line, error.description()));
  }
  Tolerances result;
  const toml::table* defaults = root["default"].as_table();
  MEGATOKEN_CHECK(root["version"].value_or(0) == 1 && defaults, "{} needs version = 1 and a [default] table", source);
  check_keys(*defaults, {"metric", "factor", "floor", "outlier_fraction"}, source + " [default]");
  const toml::node_view<const toml::node> view(*defaults);
  result.metric_ = view["metric"].value_or(std::string("rel_rms"));
  result.forward_factor_ = number(view["factor"]["fwd"], source + " default.factor.fwd");
  result.backward_factor_ = number(view["factor"]["bwd"], source + " default.factor.bwd");
  result.outlier_fraction_ = number(view["outlier_fraction"], source + " default.outlier_fraction");
  for (const char* dtype : {"fp64", "fp32", "fp16", "bf16", "e4m3"}) result.floors_[dtype] = number(view["floor"][dtype], source + " default.floor." + dtype);

  for (const auto& [component, outputs] : root) {
    if (component == "version" || component == "default") continue;
    MEGATOKEN_CHECK(outputs.is_table(), "{}: '{}' is not a table", source, component.str());
    for (const auto& [output, dtypes] : *outputs.as_table()) {
      MEGATOKEN_CHECK(dtypes.is_table(), "{}: '{}.{}' is not a table", source, component.str(), output.str());
      for (const auto& [dtype, entry] : *dtypes.as_table()) {
        const std::string key = format("{}.{}.{}", std::string(component.str()), std::string(output.str()), std::string(dtype.str()));
        MEGATOKEN_CHECK(entry.is_table(), "{}: '{}' is not a table", source, key);
        parse_dtype(std::string(dtype.str()));
        const toml::table& table = *entry.as_table();
        check_keys(table, {"metric", "factor", "floor", "why", "until"}, source + " [" + key + "]");
        MEGATOKEN_CHECK(!table["why"].value_or(std::string()).empty(), "{}: [{}] has no reason; add why = \"…\"", source, key);
        const std::string until = table["until"].value_or(std::string());
        MEGATOKEN_CHECK(until.empty() || until >= today, "{}: [{}] ran out on {}; mend the cause or renew the reason", source, key, until);
        result.overrides_[key] = {table["metric"].value_or(std::string()), table["factor"].value_or(0.0), table["floor"].value_or(-1.0)};
      }
    }
  }
  return result;
}

const Tolerances& Tolerances::standard() {
  static const Tolerances tolerances = [] {
    const std::time_t now = std::time(nullptr);
    char today[16];
    std::strftime(today, sizeof today, "%Y-%m-%d", std::gmtime(&now));
    return parse(kTolerancesToml, "reference/tolerances.toml", today);
  }();
  return tolerances;
}

Tolerance Tolerances::lookup(const std::string& component, const std::string& output, DType dtype, bool backward) const {
  Tolerance t{metric_, backward ? backward_factor_ : forward_factor_, floors_.at(to_string(is_float(dtype) ? dtype : DType::F32)), outlier_fraction_};
  if (const auto found = overrides_.find(component + "." + output + "." + to_string(dtype)); found != overrides_.end()) {
    if (!found->second.metric.empty()) t.metric = found->second.metric;
    if (found->second.factor > 0) t.factor = found->second.factor;
    if (found->second.floor >= 0) t.floor = found->second.floor;
  }
  return t;
}

std::vector<std::string> Tolerances::overrides() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : overrides_) keys.push_back(key);
  return keys;
}

}  // namespace megatoken
