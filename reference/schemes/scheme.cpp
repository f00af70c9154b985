#include "reference/schemes/scheme.hpp"

#include "reference/core/names.hpp"

namespace megatoken {

std::vector<const Scheme*> schemes_of(const std::string& component) {
  std::vector<const Scheme*> found;
  for (const auto* scheme : Registry<Scheme>::instance().all())
    if (scheme->component == component || (scheme->component == "*" && !find_component(component).token_axes.empty())) found.push_back(scheme);
  return found;
}

const Scheme& find_scheme(const std::string& component, const std::string& name) {
  std::vector<std::string> names;
  for (const auto* scheme : schemes_of(component)) {
    if (scheme->name == name) return *scheme;
    names.push_back(scheme->name);
  }
  throw_unknown_name("scheme of " + component, name, names);
}

}  // namespace megatoken
