// What the right answer is, and what the naive variant makes of it at the case's precision.
#pragma once
#include <memory>
#include <optional>

#include "reference/core/problem.hpp"

namespace megatoken {

struct Truth {
  Problem oracle;                 // fp64, from the inputs as rounded to the case's dtype
  std::optional<Problem> naive;   // the yardstick; absent at fp64 (it would be the oracle) and for dtypes `cpu` lacks
};

/// Runs attention/cpu and its like. With `given_forward`, forward outputs are taken from `problem` and only backward runs.
Truth find_truth(const Problem& problem, Phase phase, int threads, bool given_forward = false);

/// The last few truths by key, so that variants of one case share them.
std::shared_ptr<const Truth> cached_truth(const std::string& key, const Problem& problem, Phase phase, int threads);

}  // namespace megatoken
