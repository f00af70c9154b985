#include "reference/core/case.hpp"

#include <algorithm>
#include <limits>

#include "reference/core/names.hpp"

namespace megatoken {
namespace {

const std::vector<std::string> kPhases{"fwd", "bwd", "fwd_bwd"};
const std::vector<std::string> kDtypes{"fp64", "fp32", "fp16", "bf16", "e4m3"};
const std::vector<std::string> kDistributions{"normal", "aimed", "extreme", "tokens", "exact"};

bool contains(const std::vector<std::string>& words, const std::string& word) { return std::find(words.begin(), words.end(), word) != words.end(); }

void set_pair(Case& result, Axes& axes, const Component& component, const std::string& name, const std::string& value) {
  if (name == "ranks") {
    result.ranks = parse_ranks(value);
  } else if (name == "dist") {
    if (!contains(kDistributions, value)) throw_unknown_name("distribution", value, kDistributions);
    result.distribution = value;
  } else if (name == "seed") {
    result.seed = parse_seed(value);
  } else {
    for (const auto& spec : component.axes)
      if (spec.name == name) {
        axes.set(name, parse_axis_value(spec, value));
        return;
      }
    std::vector<std::string> names{"ranks", "dist", "seed"};
    for (const auto& spec : component.axes) names.push_back(spec.name);
    throw_unknown_name(component.name + " axis", name, names);
  }
}

}  // namespace

int parse_ranks(const std::string& text) { return static_cast<int>(parse_whole(text, "ranks", 1, 4096)); }
uint64_t parse_seed(const std::string& text) { return parse_whole(text, "seed", 0, std::numeric_limits<uint64_t>::max()); }

std::string Case::problem() const {
  const auto& c = find_component(component);
  return format("{} {} {} dist={} seed={}", component, to_string(dtype), format_axes(c.axes, axes), distribution, seed);
}

std::string Case::key() const {
  const auto& c = find_component(component);
  return format("{}/{}{} {} {}{} {} dist={} seed={}", component, variant, scheme.empty() ? "" : "@" + scheme, to_string(phase), to_string(dtype),
                scheme.empty() ? "" : format(" ranks={}", ranks), format_axes(c.axes, axes), distribution, seed);
}

Case Case::parse(const std::string& key) { return parse(split(key, ' ')); }

Case Case::parse(const std::vector<std::string>& words) {
  MEGATOKEN_CHECK(!words.empty() && !words[0].empty(), "a case starts with component/variant[@scheme]");
  Case result;
  const auto at = words[0].find('@');
  const auto slash = words[0].find('/');
  MEGATOKEN_CHECK(slash != std::string::npos, "'{}' is not of the form component/variant[@scheme]", words[0]);
  result.component = words[0].substr(0, slash);
  result.variant = words[0].substr(slash + 1, at == std::string::npos ? at : at - slash - 1);
  if (at != std::string::npos) result.scheme = words[0].substr(at + 1);
  const Component& component = find_component(result.component);
  Axes axes;
  for (size_t i = 1; i < words.size(); ++i) {
    const auto& word = words[i];
    if (word.empty()) continue;
    if (const auto equals = word.find('='); equals != word.npos) set_pair(result, axes, component, word.substr(0, equals), word.substr(equals + 1));
    else if (contains(kPhases, word)) result.phase = parse_phase(word);
    else if (contains(kDtypes, word)) result.dtype = parse_dtype(word);
    else {
      auto valid = kPhases;
      valid.insert(valid.end(), kDtypes.begin(), kDtypes.end());
      throw_unknown_name("word", word, valid);
    }
  }
  result.axes = component.complete(axes);
  return result;
}

}  // namespace megatoken
