// The gate rule of reference/tolerances.toml: error(variant) ≤ factor · max(error(naive), floor).
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reference/core/component.hpp"

namespace megatoken {

struct Tolerance {
  std::string metric = "rel_rms";  // rel_rms | cosine | wrong
  double factor = 2;
  double floor = 0;
  double outlier_fraction = 1;     // elements beyond 8 × the limit that are allowed
};

class Tolerances {
 public:
  /// Strict: unknown keys, overrides without `why` and expired `until` are usage errors that name `source`.
  static Tolerances parse(std::string_view toml, const std::string& source, const std::string& today);
  /// Those of reference/tolerances.toml, built in.
  static const Tolerances& standard();

  Tolerance lookup(const std::string& component, const std::string& output, DType dtype, bool backward) const;
  /// "attention.dk.bf16" of every override, so that a test can find unused ones.
  std::vector<std::string> overrides() const;

 private:
  struct Override {
    std::string metric;
    double factor = 0, floor = -1;
  };
  std::string metric_ = "rel_rms";
  double forward_factor_ = 2, backward_factor_ = 3, outlier_fraction_ = 1;
  std::map<std::string, double> floors_;
  std::map<std::string, Override> overrides_;  // "component.output.dtype"
};

}  // namespace megatoken
