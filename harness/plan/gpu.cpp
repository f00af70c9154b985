// Reads GPU descriptions. Every field has a value, a unit and a source; unknown fields and absurd values are refused.
#include "harness/plan/gpu.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <toml++/toml.h>

#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {

// The files of harness/plan/gpus, embedded by the build.
extern const std::string_view kGpuB200, kGpuGb300, kGpuH200, kGpuH100, kGpuA100;

namespace plan {
namespace {

struct FieldRule {
  const char* name;
  Sourced Gpu::*member;
  const char* unit;
  double least, most;  // anything outside is a typing error, not a GPU
};
constexpr double kGiga = 1e9, kTera = 1e12, kPeta = 1e15;
const FieldRule kFields[] = {
    {"memory", &Gpu::memory, "B", kGiga, 10 * kTera},
    {"memory_bandwidth", &Gpu::memory_bandwidth, "B/s", 10 * kGiga, 100 * kTera},
    {"bf16_peak", &Gpu::bf16_peak, "FLOP/s", kTera, 100 * kPeta},
    {"gemm", &Gpu::gemm, "FLOP/s", kTera, 100 * kPeta},
    {"attention_forward", &Gpu::attention_forward, "FLOP/s", kTera, 100 * kPeta},
    {"attention_backward", &Gpu::attention_backward, "FLOP/s", kTera, 100 * kPeta},
    {"link", &Gpu::link, "B/s", kGiga, 100 * kTera},
    {"network", &Gpu::network, "B/s", 0.1 * kGiga, 100 * kTera},
    {"host_link", &Gpu::host_link, "B/s", kGiga, 10 * kTera},
    {"host_memory", &Gpu::host_memory, "B", kGiga, 100 * kTera},
    {"node_gpus", &Gpu::node_gpus, "1", 1, 4096},
    {"tray_gpus", &Gpu::tray_gpus, "1", 1, 4096},
};

std::vector<std::string> field_names() {
  std::vector<std::string> names{"name"};
  for (const auto& rule : kFields) names.push_back(rule.name);
  return names;
}

Sourced read_field(const toml::table& table, const FieldRule& rule, const std::string& where) {
  const auto* field = table[rule.name].as_table();
  MEGATOKEN_CHECK(field, "{}: [{}] is missing; it needs value, unit and source", where, rule.name);
  for (const auto& [key, node] : *field)
    if (key != "value" && key != "unit" && key != "source")
      throw_unknown_name(format("{}: [{}] key", where, rule.name), std::string(key.str()), {"value", "unit", "source"});
  const auto value = (*field)["value"].value<double>();
  const auto unit = (*field)["unit"].value<std::string>(), source = (*field)["source"].value<std::string>();
  MEGATOKEN_CHECK(value, "{}: [{}] needs a number called value", where, rule.name);
  MEGATOKEN_CHECK(unit && *unit == rule.unit, "{}: [{}] unit must be \"{}\"", where, rule.name, rule.unit);
  MEGATOKEN_CHECK(source && !source->empty(), "{}: [{}] needs a source: where does the number come from?", where, rule.name);
  MEGATOKEN_CHECK(*value >= rule.least && *value <= rule.most, "{}: [{}] value = {:g} {}, it must lie between {:g} and {:g}", where, rule.name,
                  *value, rule.unit, rule.least, rule.most);
  return {*value, *unit, *source};
}

const std::map<std::string, std::string_view>& embedded_gpus() {
  static const std::map<std::string, std::string_view> gpus{
      {"b200", kGpuB200}, {"gb300", kGpuGb300}, {"h200", kGpuH200}, {"h100", kGpuH100}, {"a100", kGpuA100}};
  return gpus;
}

}  // namespace

double Gpu::rate_between(int64_t size, int64_t stride) const {
  return static_cast<double>(size * stride) <= node_gpus.value ? link.value : network.value;
}

Gpu parse_gpu(std::string_view text, const std::string& where) {
  toml::table table;
  try {
    table = toml::parse(text, where);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::Usage, format("{}: line {}: {}", where, error.source().begin.line, error.description()));
  }
  for (const auto& [key, node] : table) {
    const auto names = field_names();
    if (std::find(names.begin(), names.end(), key.str()) == names.end()) throw_unknown_name(where + ": field", std::string(key.str()), names);
  }
  Gpu gpu;
  const auto name = table["name"].value<std::string>();
  MEGATOKEN_CHECK(name && !name->empty(), "{}: name is missing", where);
  gpu.name = *name;
  for (const auto& rule : kFields) {
    const bool may_follow_node = std::string_view(rule.name) == "tray_gpus" && !table.contains("tray_gpus");
    gpu.*rule.member = may_follow_node ? gpu.node_gpus : read_field(table, rule, where);
  }
  MEGATOKEN_CHECK(gpu.gemm.value <= gpu.bf16_peak.value, "{}: [gemm] is above [bf16_peak]", where);
  return gpu;
}

Gpu load_gpu(const std::string& name_or_path) {
  if (auto found = embedded_gpus().find(name_or_path); found != embedded_gpus().end()) return parse_gpu(found->second, name_or_path);
  if (!name_or_path.ends_with(".toml")) throw_unknown_name("GPU", name_or_path, known_gpus());
  std::ifstream file(name_or_path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    throw Error(ErrorKind::Usage, format("GPU description {} cannot be read", name_or_path),
                "give a TOML file or one of " + join(known_gpus(), ", "));
  return parse_gpu(text.str(), name_or_path);
}

std::vector<std::string> known_gpus() {
  std::vector<std::string> names;
  for (const auto& [name, text] : embedded_gpus()) names.push_back(name);
  return names;
}

std::vector<std::pair<std::string, Sourced>> described(const Gpu& gpu) {
  std::vector<std::pair<std::string, Sourced>> all;
  for (const auto& rule : kFields) all.emplace_back(rule.name, gpu.*rule.member);
  return all;
}

}  // namespace plan
}  // namespace megatoken
