#include "harness/run/suite.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <toml++/toml.h>

#include "reference/core/names.hpp"

namespace megatoken {

extern const std::string_view kSuiteCi, kSuiteCpuScaling, kSuiteCpuSpeed, kSuiteDemo, kSuiteNightly;  // harness/suites/*.toml, embedded by the build

namespace {

struct BuiltIn {
  const char* name;
  const std::string_view* text;
};
const BuiltIn kBuiltIn[] = {{"ci", &kSuiteCi}, {"cpu_scaling", &kSuiteCpuScaling}, {"cpu_speed", &kSuiteCpuSpeed}, {"demo", &kSuiteDemo}, {"nightly", &kSuiteNightly}};

void check_keys(const toml::table& table, const std::vector<std::string>& valid, const std::string& where) {
  for (const auto& [key, value] : table)
    if (std::find(valid.begin(), valid.end(), std::string(key.str())) == valid.end()) throw_unknown_name("key in " + where, key.str(), valid);
}

std::vector<std::string> texts(const toml::node_view<toml::node>& node, const std::string& where) {
  std::vector<std::string> result;
  if (!node) return result;
  MEGATOKEN_CHECK(node.is_array(), "{} must be a list of strings", where);
  for (const auto& item : *node.as_array()) {
    MEGATOKEN_CHECK(item.is_string(), "{} must be a list of strings", where);
    result.push_back(item.value<std::string>().value());
  }
  return result;
}

}  // namespace

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const auto& suite : kBuiltIn) names.emplace_back(suite.name);
  return names;
}

Suite parse_suite(std::string_view text, const std::string& source) {
  toml::table root;
  try {
    root = toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::Usage, format("{}:{}: {}", source, error.source().begin.line, error.description()), "see harness/suites/ci.toml for the form");
  }
  check_keys(root, {"version", "about", "case", "planted", "balance", "timeout", "sampling_time"}, source);
  MEGATOKEN_CHECK(root["version"].value_or(0) == 1, "{} needs version = 1", source);
  Suite suite;
  suite.name = source;
  suite.about = root["about"].value_or(std::string());
  suite.text = text;
  suite.planted = texts(root["planted"], source + " planted");
  suite.balance = texts(root["balance"], source + " balance");
  suite.timeout = root["timeout"].value_or(std::string());
  suite.sampling_time = root["sampling_time"].value_or(0.0);
  if (auto* cases = root["case"].as_array())
    for (auto& node : *cases) {
      MEGATOKEN_CHECK(node.is_table(), "{}: every [[case]] is a table", source);
      toml::table& table = *node.as_table();
      check_keys(table, {"select", "set", "time"}, source + " [[case]]");
      SuiteBlock block;
      block.selection.selectors = texts(table["select"], source + " select");
      block.selection.settings = texts(table["set"], source + " set");
      block.time = table["time"].value_or(false);
      suite.blocks.push_back(std::move(block));
    }
  MEGATOKEN_CHECK(!suite.blocks.empty() || !suite.planted.empty() || !suite.balance.empty(), "{} holds no [[case]], no planted and no balance list", source);
  return suite;
}

Suite load_suite(const std::string& name) {
  for (const auto& suite : kBuiltIn)
    if (name == suite.name) {
      Suite loaded = parse_suite(*suite.text, std::string("harness/suites/") + suite.name + ".toml");
      loaded.name = name;
      return loaded;
    }
  if (!name.ends_with(".toml")) throw_unknown_name("suite", name, suite_names());
  std::ifstream file(name);
  if (!file) throw Error(ErrorKind::Usage, format("suite file {} cannot be read", name), "check the path, or use one of " + join(suite_names(), ", "));
  std::stringstream text;
  text << file.rdbuf();
  return parse_suite(text.str(), name);
}

}  // namespace megatoken
