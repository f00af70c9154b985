// A case: component, variant, scheme, phase, dtype, axes, ranks, distribution, seed. Its canonical key is filter, JUnit
// name, HDF5 key, join key and, after `megatoken check`, the command that repeats it.
#pragma once
#include <string>
#include <vector>

#include "reference/core/component.hpp"

namespace megatoken {

struct Case {
  std::string component, variant, scheme;  // scheme "": one rank, no scheme
  Phase phase = Phase::Both;
  DType dtype = DType::F32;
  Axes axes;                               // complete
  int ranks = 1;
  std::string distribution = "normal";
  uint64_t seed = 0;

  /// "attention/online_softmax@zigzag fwd_bwd bf16 ranks=4 b=1 t=65536 h=8 hk=2 d=64 dist=aimed seed=0"
  std::string key() const;
  /// The same without variant and scheme: cases with equal problems have equal inputs.
  std::string problem() const;
  /// Reads a key back; words may come in any order, absent ones take defaults. Throws with the nearest names.
  static Case parse(const std::vector<std::string>& words);
  static Case parse(const std::string& key);
};

/// Settings of a case that are no axes of its component; usage errors for what is no whole number in range.
int parse_ranks(const std::string& text);
uint64_t parse_seed(const std::string& text);

}  // namespace megatoken
