// A planted fault: a deliberately wrong variant or scheme that the checks must reject. Faults live in tests/planted/, one
// file a component; `megatoken check --planted` runs them all and prints which strategy and distribution saw each.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "reference/core/variant.hpp"
#include "reference/schemes/scheme.hpp"

namespace megatoken {

struct Fault {
  std::string component, name;
  std::string about;                                     // what goes wrong
  std::string guards;                                    // the public report or the spec line it stands for; "" if none
  std::function<Variant(const Variant& truth)> plant;    // from the right variant (cpu or gpu) a wrong one …
  std::string scheme;                                    // … or, for a scheme of this name,
  std::function<Scheme(const Scheme& truth)> plant_scheme;
  std::string axes;                                      // judged at these axes; "": the component's `judging` axes
  int ranks = 4;                                         // for schemes
  bool cpu_only = false;                                 // cannot be planted in the GPU twin

  std::string label() const { return component + (scheme.empty() ? "" : "@" + scheme) + ":" + name; }
};

}  // namespace megatoken
