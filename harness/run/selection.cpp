#include "harness/run/selection.hpp"

#include <algorithm>
#include <map>

#include "reference/core/names.hpp"
#include "reference/core/variant.hpp"
#include "reference/schemes/scheme.hpp"

namespace megatoken {
namespace {

struct Pattern {
  std::string component, variant = "*", scheme;
  bool exclude = false, exclude_variant = false;  // '!component/…' · 'component/!variant'
};

Pattern parse_pattern(std::string text) {
  Pattern pattern;
  if (!text.empty() && text[0] == '!') pattern.exclude = true, text.erase(0, 1);
  if (const auto at = text.find('@'); at != text.npos) {
    pattern.scheme = text.substr(at + 1);
    text.resize(at);
  }
  if (const auto slash = text.find('/'); slash != text.npos) {
    pattern.variant = text.substr(slash + 1);
    text.resize(slash);
    if (!pattern.variant.empty() && pattern.variant[0] == '!') pattern.exclude_variant = true, pattern.variant.erase(0, 1);
  }
  pattern.component = text.empty() ? "*" : text;
  if (pattern.exclude && pattern.scheme.empty()) pattern.scheme = "*";  // '!attention' excludes its schemes too
  return pattern;
}

bool matches(const Pattern& p, const std::string& component, const std::string& variant, const std::string& scheme) {
  return matches_glob(component, p.component) && matches_glob(variant, p.variant) != p.exclude_variant &&
         (p.scheme.empty() ? scheme.empty() : (p.exclude && p.scheme == "*") || (!scheme.empty() && matches_glob(scheme, p.scheme)));
}

struct Target {
  const Component* component;
  const Variant* variant;
  std::string scheme;
};

std::vector<Target> all_targets() {
  std::vector<Target> targets;
  for (const Component* component : Registry<Component>::instance().all())
    for (const Variant* variant : variants_of(component->name)) {
      targets.push_back({component, variant, ""});
      for (const Scheme* scheme : schemes_of(component->name)) targets.push_back({component, variant, scheme->name});
    }
  return targets;
}

[[noreturn]] void throw_no_match(const std::string& selector, const std::vector<Target>& targets) {
  const Pattern p = parse_pattern(selector);
  std::vector<std::string> components, variants, schemes;
  const auto add = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const auto& t : targets) {
    add(components, t.component->name);
    if (!matches_glob(t.component->name, p.component)) continue;
    add(variants, t.component->name + "/" + t.variant->name);
    if (!t.scheme.empty()) add(schemes, t.component->name + "@" + t.scheme);
  }
  if (variants.empty()) throw_unknown_name("component", p.component, components);
  const bool variant_known = std::any_of(targets.begin(), targets.end(), [&](const Target& t) {
    return matches_glob(t.component->name, p.component) && matches_glob(t.variant->name, p.variant) != p.exclude_variant;
  });
  if (!variant_known) throw_unknown_name("variant", p.component + "/" + p.variant, variants);
  throw_unknown_name("scheme", p.component + "@" + p.scheme, schemes);
}

std::vector<Target> chosen_targets(const std::vector<std::string>& selectors) {
  const auto targets = all_targets();
  for (const auto& selector : selectors) {
    Pattern p = parse_pattern(selector);
    if (p.exclude) continue;
    if (std::none_of(targets.begin(), targets.end(), [&](const Target& t) { return matches(p, t.component->name, t.variant->name, t.scheme); })) throw_no_match(selector, targets);
  }
  std::vector<Target> chosen;
  for (const auto& t : targets)
    if (selected(selectors, t.component->name, t.variant->name, t.scheme)) chosen.push_back(t);
  return chosen;
}

using Settings = std::map<std::string, std::string>;

Settings parse_settings(const std::vector<std::string>& settings) {
  Settings result;
  for (const auto& setting : settings) {
    const auto equals = setting.find('=');
    MEGATOKEN_CHECK(equals != setting.npos && equals > 0 && equals + 1 < setting.size(), "'{}' is not of the form axis=values", setting);
    result[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return result;
}

std::vector<std::string> words_of(const Settings& settings, const std::string& name, const std::string& fallback) {
  const auto found = settings.find(name);
  return split(found == settings.end() ? fallback : found->second, ',');
}

const std::vector<std::string> kCaseWords{"dtype", "phase", "dist", "ranks", "seed"};

void check_axis_names(const Settings& settings, const std::vector<Target>& targets) {
  for (const auto& [name, value] : settings) {
    if (std::find(kCaseWords.begin(), kCaseWords.end(), name) != kCaseWords.end()) continue;
    std::vector<std::string> names = kCaseWords;
    bool known = false;
    for (const auto& t : targets)
      for (const auto& spec : t.component->axes) {
        known |= spec.name == name;
        if (std::find(names.begin(), names.end(), spec.name) == names.end()) names.push_back(spec.name);
      }
    if (!known) throw_unknown_name("axis", name, names);
  }
}

/// All axis combinations of a component, first axis slowest.
std::vector<Axes> axis_grid(const Component& component, const Settings& settings) {
  std::vector<Axes> grid{Axes()};
  for (const auto& spec : component.axes) {
    const auto found = settings.find(spec.name);
    if (found == settings.end()) continue;
    std::vector<Axes> wider;
    for (const auto& axes : grid)
      for (double value : parse_axis_range(spec, found->second)) {
        wider.push_back(axes);
        wider.back().set(spec.name, value);
      }
    grid = std::move(wider);
  }
  return grid;
}

void check_distributions(const std::vector<std::string>& names, const std::vector<Target>& targets) {
  std::vector<std::string> valid;
  for (const auto& t : targets)
    for (const auto& d : t.component->distributions)
      if (std::find(valid.begin(), valid.end(), d) == valid.end()) valid.push_back(d);
  for (const auto& name : names)
    if (std::find(valid.begin(), valid.end(), name) == valid.end()) throw_unknown_name("distribution", name, valid);
}

}  // namespace

Selection parse_words(const std::vector<std::string>& words) {
  Selection selection;
  std::vector<std::string> dtypes, phases;
  for (const auto& text : words)
    for (const auto& word : split(text, ' ')) {  // a quoted key is one argument
      if (word.empty()) continue;
      if (word.find('=') != word.npos) selection.settings.push_back(word);
      else if (word == "fwd" || word == "bwd" || word == "fwd_bwd") phases.push_back(word);
      else if (word == "fp64" || word == "fp32" || word == "fp16" || word == "bf16" || word == "e4m3") dtypes.push_back(word);
      else selection.selectors.push_back(word);
    }
  if (!dtypes.empty()) selection.settings.push_back("dtype=" + join(dtypes, ","));
  if (!phases.empty()) selection.settings.push_back("phase=" + join(phases, ","));
  return selection;
}

bool selected(const std::vector<std::string>& selectors, const std::string& component, const std::string& variant, const std::string& scheme) {
  bool included = false;
  for (const auto& selector : selectors) {
    const Pattern p = parse_pattern(selector);
    if (!matches(p, component, variant, scheme)) continue;
    if (p.exclude) return false;
    included = true;
  }
  return included;
}

std::vector<Case> expand(const Selection& selection) {
  MEGATOKEN_CHECK(!selection.selectors.empty(), "nothing selected; name a component, as in attention or 'attention/*', or a --suite");
  const auto targets = chosen_targets(selection.selectors);
  const Settings settings = parse_settings(selection.settings);
  check_axis_names(settings, targets);
  const auto distributions = words_of(settings, "dist", "normal,aimed");
  check_distributions(distributions, targets);

  std::vector<Case> cases;
  for (const Component* component : Registry<Component>::instance().all()) {
    std::vector<Target> mine;
    for (const auto& t : targets)
      if (t.component == component) mine.push_back(t);
    if (mine.empty()) continue;
    for (const Axes& axes : axis_grid(*component, settings))
      for (const auto& dtype : words_of(settings, "dtype", "fp32"))
        for (const auto& distribution : distributions)
          for (const auto& seed : words_of(settings, "seed", "0"))
            for (const auto& phase : component->has_gradients() ? words_of(settings, "phase", "fwd_bwd") : std::vector<std::string>{"fwd"})
              for (const auto& t : mine)
                for (const auto& ranks : words_of(settings, "ranks", t.scheme.empty() ? "1" : "4")) {
                  if (std::find(component->distributions.begin(), component->distributions.end(), distribution) == component->distributions.end()) continue;
                  if (t.scheme.empty() && ranks != words_of(settings, "ranks", "1").front()) continue;  // ranks mean nothing without a scheme
                  Case test;
                  test.component = component->name;
                  test.variant = t.variant->name;
                  test.scheme = t.scheme;
                  test.phase = parse_phase(phase);
                  test.dtype = parse_dtype(dtype);
                  test.axes = component->complete(axes);
                  test.ranks = t.scheme.empty() ? 1 : parse_ranks(ranks);
                  test.distribution = distribution;
                  test.seed = parse_seed(seed);
                  cases.push_back(std::move(test));
                }
  }
  MEGATOKEN_CHECK(!cases.empty(), "no case left: the selected components have none of the distributions {}", join(distributions, ", "));
  return cases;
}

}  // namespace megatoken
