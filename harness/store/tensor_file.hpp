// Named tensors and texts in a file of either kind, told apart by its name: NAME.safetensors, or NAME.h5 with one dataset a tensor and
// one attribute a text.
#pragma once
#include "harness/store/safetensors.hpp"

namespace megatoken {

using TensorFile = Safetensors;

/// Throws a usage error for other endings.
void check_tensor_file_name(const std::string& path);
/// Never overwrites: a usage error when PATH exists.
void write_tensor_file(const std::string& path, const std::map<std::string, TensorView>& tensors, const std::map<std::string, std::string>& metadata);
TensorFile read_tensor_file(const std::string& path);

}  // namespace megatoken
