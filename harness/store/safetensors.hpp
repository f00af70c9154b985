// Tensors in the safetensors format, for other programs to make and to read: the length of a JSON header (8 bytes, little-endian), the
// header {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, …, "__metadata__": {"key": "text"}}, and the raw bytes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "reference/core/tensor.hpp"

namespace megatoken {

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::map<std::string, Tensor> tensors;
};

/// Writes the file in one step; strided and device tensors are copied to the host first.
void write_safetensors(const std::string& path, const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Reads a whole file. Anything that is not exactly the format (header, types, offsets with holes or overlaps, missing or spare bytes) is a
/// usage Error that names the file and the tensor. A scalar comes back with shape [1].
Safetensors read_safetensors(const std::string& path);

}  // namespace megatoken
