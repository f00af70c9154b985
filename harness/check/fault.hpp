// A planted fault: a deliberately wrong variant or scheme that the checks must reject. Faults live in tests/planted/, one
// file a component; `megatoken check --planted` runs them all and prints which strategy and distribution saw each.
#pragma once
#include <functional>
#include <string>
#include <vector>
#include <vector>

#include "reference/core/variant.hpp"
#include "reference/schemes/scheme.hpp"

namespace megatoken {

struct Fault {
  std::string component, name;
  std::string about;                                     // what goes wrong
  std::string guards;                                    // the public report or the spec line it stands for; "" if none
  std::function<Variant(const Variant& truth)> plant;    // from the right variant a wrong one …
  std::string scheme;                                    // … or, for a scheme of this name,
  std::function<Scheme(const Scheme& truth)> plant_scheme;
  std::string variant;                                   // the right variant; "": cpu or gpu, as the run says
  std::string axes;                                      // judged at these axes; "": the component's `judging` axes
  std::vector<std::string> distributions;                // judged with these inputs; empty: all of the component
  int64_t beyond = 0;                                    // gives the right answer up to so many tokens; 0: always wrong
  int ranks = 4;                                         // for schemes
  bool cpu_only = false;                                 // cannot be planted in the GPU twin

  std::string label() const { return component + (scheme.empty() ? "" : "@" + scheme) + ":" + name; }
};

}  // namespace megatoken
