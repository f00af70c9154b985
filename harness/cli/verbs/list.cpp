// list: what there is, as text or JSON; --coverage shows what a component still lacks; --abi the tensors in plugin order.
#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/check/fault.hpp"
#include "harness/check/strategies.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/verb.hpp"
#include "harness/run/suite.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFaultsWanted = 6;

std::string role_name(Role role) {
  constexpr const char* kNames[] = {"input", "output", "upstream gradient", "gradient"};
  return kNames[static_cast<int>(role)];
}

std::string kind_name(Kind kind) {
  constexpr const char* kNames[] = {"case dtype", "accumulator", "i32"};
  return kNames[static_cast<int>(kind)];
}

std::string architectures(const Variant& v) {
  if (v.device == Device::Cpu) return "cpu";
  if (v.architectures.empty()) return "gpu";
  std::vector<std::string> names;
  for (int arch : v.architectures) names.push_back(format("sm_{}", arch));
  return join(names, ",");
}

Json describe(const Component& c) {
  Json json{{"name", c.name}, {"about", c.about}, {"distributions", c.distributions}};
  for (const auto& axis : c.axes) json["axes"].push_back({{"name", axis.name}, {"about", axis.about}, {"option", axis.option}});
  for (const auto* v : variants_of(c.name)) {
    Json dtypes = Json::array();
    for (DType d : v->dtypes) dtypes.push_back(to_string(d));
    json["variants"].push_back({{"name", v->name}, {"about", v->about}, {"device", architectures(*v)}, {"dtypes", dtypes}, {"backward", static_cast<bool>(v->backward)}, {"deterministic", v->deterministic}});
  }
  for (const auto* s : schemes_of(c.name)) json["schemes"].push_back({{"name", s->name}, {"about", s->about}});
  return json;
}

void print_component(const Component& c) {
  std::cout << c.name << "   " << c.about << "\n";
  std::vector<std::string> words;
  for (const auto& axis : c.axes) words.push_back(axis.name + (axis.option ? "?" : ""));
  std::cout << "  axes     " << join(words, " ") << "\n";
  for (const auto* v : variants_of(c.name)) {
    std::vector<std::string> dtypes;
    for (DType d : v->dtypes) dtypes.push_back(to_string(d));
    std::cout << format("  variant  {:<20} {:<8} {:<22} {}{}\n", v->name, architectures(*v), join(dtypes, " "), v->about, v->backward ? "" : " (forward only)");
  }
  for (const auto* s : schemes_of(c.name)) std::cout << format("  scheme   {:<20} {}\n", s->name, s->about);
}

/// What is there, and what is missing, for one component.
struct Coverage {
  std::vector<std::string> have, missing;
};

Coverage coverage_of(const Component& c) {
  Coverage result;
  const auto need = [&](bool there, const std::string& text, const std::string& lack) { (there ? result.have : result.missing).push_back(there ? text : lack); };
  std::vector<std::string> gradients, without;
  for (const auto& field : c.fields)
    if (field.role == Role::InputGrad) gradients.push_back(field.name);
  const Variant* cpu = Registry<Variant>::instance().find(c.name + "/cpu");
  const Variant* gpu = Registry<Variant>::instance().find(c.name + "/gpu");
  need(cpu && cpu->forward, "fwd", "cpu forward");
  if (!gradients.empty()) need(cpu && cpu->backward, "bwd: " + join(gradients, " "), "cpu backward");
#ifdef MEGATOKEN_WITH_CUDA
  need(gpu != nullptr, "gpu twin", "gpu twin");
#else
  if (gpu) result.have.push_back("gpu twin");
#endif
  for (const char* distribution : {"normal", "aimed", "extreme", "tokens"})
    need(std::find(c.distributions.begin(), c.distributions.end(), distribution) != c.distributions.end(), distribution, std::string("distribution ") + distribution);
  std::vector<std::string> strategies{"full", "repeat", "hygiene"};
  for (const auto& slice : c.slices) strategies.push_back(slice.strategy);
  if (c.causal) strategies.push_back("prefix");
  if (!document_fields(c).empty() && !c.token_axes.empty()) strategies.push_back("shift");
  need(!c.slices.empty() || c.causal || !document_fields(c).empty() || c.token_axes.empty(), "strategies: " + join(strategies, " "), "a strategy for long sequences (slices, prefix or shift)");
  int64_t faults = 0;
  for (const Fault* fault : Registry<Fault>::instance().all()) faults += fault->component == c.name;
  need(faults >= kFaultsWanted, format("{} planted faults", faults), format("planted faults ({} of {})", faults, kFaultsWanted));
  need(c.examples.size() >= 3, format("{} border shapes", c.examples.size()), "border shapes (examples)");
  need(!c.judging.empty(), "judging axes", "judging axes");
  need(static_cast<bool>(c.cost), "cost model", "cost model");
  return result;
}

int print_coverage(const std::vector<const Component*>& components) {
  bool holes = false;
  for (const auto* c : components) {
    const Coverage coverage = coverage_of(*c);
    std::cout << format("{:<22} {}\n", c->name, join(coverage.have, " · "));
    if (coverage.missing.empty()) continue;
    holes = true;
    std::cout << format("{:<22} MISSING {}\n", "", join(coverage.missing, " · "));
  }
  std::cout << (holes ? "coverage has holes\n" : "no hole\n");
  return holes ? kGateFailed : kPassed;
}

void print_abi(const Component& c) {
  for (const auto& field : c.fields)
    std::cout << format("{:<16} {:<18} {:<20} {}{}\n", field.name, role_name(field.role), kind_name(field.kind), field.axes.empty() ? "(scalar)" : field.axes,
                        field.when.empty() ? "" : "   only with " + field.when);
}

int run(const std::vector<std::string>& arguments) {
  bool json = false, coverage = false;
  std::string abi;
  std::vector<std::string> names;
  parse_arguments("list", "components, variants, schemes, suites",
                  {{"--json", "as JSON", &json}, {"--coverage", "what every component has and lacks; exit 3 when something is missing", &coverage},
                   {"--abi", "tensors of this component, in plugin order", &abi}},
                  {"COMPONENT", "globs; default all", &names}, arguments);
  if (!abi.empty()) {
    print_abi(find_component(abi));
    return kPassed;
  }
  std::vector<const Component*> components;
  for (const auto* c : Registry<Component>::instance().all())
    if (names.empty() || std::any_of(names.begin(), names.end(), [&](const auto& name) { return matches_glob(c->name, name); })) components.push_back(c);
  if (components.empty()) find_component(names.empty() ? "" : names[0]);
  if (coverage) return print_coverage(components);
  if (json) {
    Json root{{"suites", suite_names()}};
    for (const auto* c : components) root["components"].push_back(describe(*c));
    std::cout << root.dump(1) << "\n";
    return kPassed;
  }
  for (const auto* c : components) print_component(*c);
  std::cout << "suites: " << join(suite_names(), " ") << "\n";
  return kPassed;
}

const Registered<Verb> registered{{"list", "components, variants, schemes, suites; what is missing; tensor order", run}};

}  // namespace
}  // namespace megatoken
