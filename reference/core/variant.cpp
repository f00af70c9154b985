#include "reference/core/variant.hpp"

#include "reference/core/device.hpp"
#include "reference/core/names.hpp"

namespace megatoken {

std::string Variant::unsupported(const Axes& axes, DType dtype, Phase phase) const {
  if (std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end()) return format("unsupported: {} has no {}", label(), to_string(dtype));
  if (phase != Phase::Forward && !backward) return format("unsupported: {} has no backward", label());
  if (device == Device::Gpu) {
    if (gpu_count() == 0) return "no_device: " + gpu_absence();
    if (!architectures.empty() && std::find(architectures.begin(), architectures.end(), gpu_architecture()) == architectures.end())
      return format("no_device: {} needs sm_{}, this GPU is sm_{}", label(), architectures.front(), gpu_architecture());
  }
  const std::string reason = refuse ? refuse(axes, dtype) : "";
  return reason.empty() ? "" : "unsupported: " + reason;
}

std::vector<const Variant*> variants_of(const std::string& component) {
  std::vector<const Variant*> found;
  for (const auto* v : Registry<Variant>::instance().all())
    if (v->component == component) found.push_back(v);
  return found;
}

const Variant& find_variant(const std::string& component, const std::string& name) {
  find_component(component);
  std::vector<std::string> names;
  for (const auto* v : variants_of(component)) {
    if (v->name == name) return *v;
    names.push_back(v->name);
  }
  throw_unknown_name("variant of " + component, name, names);
}

}  // namespace megatoken
