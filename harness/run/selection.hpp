// From what a person types to a list of cases: selectors with globs, axis grids, and the words of a key.
#pragma once
#include <string>
#include <vector>

#include "reference/core/case.hpp"

namespace megatoken {

/// One block of a suite, or one command line.
struct Selection {
  std::vector<std::string> selectors;  // component[/variant][@scheme] with * and ?; "!…" excludes
  std::vector<std::string> settings;   // "t=64Ki:1Mi:x2" "dtype=bf16,fp32" "phase=fwd" "dist=aimed" "ranks=1,2,4" "seed=3"
};

/// Splits command-line words: settings are words with '=', phases and dtypes; everything else is a selector.
Selection parse_words(const std::vector<std::string>& words);

/// Every combination, in a stable order in which cases with equal problems are neighbours. Axes that a component lacks are a
/// usage error with the nearest names, unless several components are selected and another one has them.
/// A selector that matches nothing is a usage error.
std::vector<Case> expand(const Selection& selection);

/// True when "component/variant@scheme" matches any including selector and no excluding one. A selector without '@' matches
/// only the empty scheme, one without '/' every variant.
bool selected(const std::vector<std::string>& selectors, const std::string& component, const std::string& variant, const std::string& scheme);

}  // namespace megatoken
