// A case as a file, for programs in any language: its inputs and upstream gradients under their names, the fp64 oracle's outputs and
// gradients as oracle.NAME. Such a program writes a file of outputs, which is judged by the gate rule.
#pragma once
#include <string>

#include "harness/check/checker.hpp"

namespace megatoken {

/// Writes FILE.h5 or FILE.safetensors; never overwrites. Texts: case (the key), component, axes (every axis, defaults too).
void write_case(const std::string& path, const Case& test, const CheckOptions& options, bool with_oracle);

/// Holds the outputs in one file against a case in another: all elements while the oracle can be computed within
/// options.full_flops, else sampled rows, columns or heads. Only forward is judged when there is no gradient at all. Missing
/// outputs, unknown names and wrong shapes are usage errors.
CaseReport judge_outputs(const std::string& case_path, const std::string& output_path, const CheckOptions& options);

}  // namespace megatoken
