// Between the contents of a result file in memory and the HDF5 file.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "harness/store/result_data.hpp"
#include "harness/store/result_file.hpp"

namespace megatoken {

/// The bytes of the whole file. Tensors come from the file written before (`previous`, "" for none) and from `unsaved`.
std::vector<std::byte> encode_results(const std::string& path, const ResultData& data, const std::string& previous,
                                      std::span<const SavedTensor> unsaved);
ResultData decode_results(const std::string& path);
/// "<result>/<name>" of every tensor in the file.
std::vector<std::string> list_tensors(const std::string& path);
std::vector<SavedTensor> read_tensors(const std::string& path, int64_t result);

}  // namespace megatoken
