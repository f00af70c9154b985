#include "reference/schemes/scheme.hpp"

#include "reference/core/names.hpp"

namespace megatoken {

Axes local_axes(const Component& component, const Axes& global, const Layout& layout) {
  Axes local = global;
  for (const auto& axis : component.token_axes) local.set(axis, static_cast<double>(layout.local_rows()));
  return local;
}

int token_axis(const Component& component, const Field& field) {
  for (const auto& axis : component.token_axes)
    if (const int position = Component::axis_position(field, axis); position >= 0) return position;
  return -1;
}

namespace {

/// Rows of every tensor belong to single tokens. Where one row stands for several (pools: "s/pool"), a cut by tokens fits no general scheme.
bool has_token_rows(const Component& component) {
  for (const Field& field : component.fields)
    for (const auto& word : split(field.axes, ' '))
      for (const auto& axis : component.token_axes)
        if (word.rfind(axis + "/", 0) == 0) return false;
  return !component.token_axes.empty();
}

}  // namespace

std::vector<const Scheme*> schemes_of(const std::string& component) {
  std::vector<const Scheme*> found;
  for (const auto* scheme : Registry<Scheme>::instance().all())
    if (scheme->component == component || (scheme->component == "*" && has_token_rows(find_component(component)))) found.push_back(scheme);
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
