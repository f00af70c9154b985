// The gate of reference/tolerances.toml, for tests that choose their own inputs.
#pragma once
#include <gtest/gtest.h>

#include "harness/check/tolerances.hpp"
#include "tests/compare.hpp"

namespace megatoken::test {

/// Runs the variant on the inputs of `got`: every output and gradient must be as close to `naive` at fp64 as the gate asks, which starts from
/// the error of `naive` at the same dtype. Results start as NaN, so nothing may be left unwritten.
inline void expect_within_gate(const Variant& variant, const Variant& naive, const Problem& got, const std::string& what) {
  const Problem yardstick = got.converted(got.dtype()), oracle = got.converted(DType::F64);
  for (size_t i = 0; i < got.views().size(); ++i)
    if (is_result(got.component().fields[i]) && got.views()[i]) fill(got.views()[i], std::nan(""));
  run_variant(variant, got, Phase::Both, 2);
  run_variant(naive, yardstick, Phase::Both, 2);
  run_variant(naive, oracle, Phase::Both, 2);
  for (const Field& field : got.component().fields) {
    if (!is_result(field) || !got[field.name]) continue;
    const Tolerance gate = Tolerances::standard().lookup(got.component().name, field.name, got.dtype(), field.role == Role::InputGrad);
    const double allowed = gate.factor * std::max(relative_rms(yardstick[field.name], oracle[field.name]), gate.floor);
    EXPECT_LE(relative_rms(got[field.name], oracle[field.name]), allowed) << field.name << " of " << variant.label() << ", " << to_string(got.dtype()) << ", " << what;
  }
}

}  // namespace megatoken::test
