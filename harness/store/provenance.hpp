// Where a result comes from: the build, the machine's software and the environment variables that change results.
#pragma once
#include <map>
#include <string>

#include "harness/store/value.hpp"

namespace megatoken {

/// The attributes of /provenance. What only the caller can know (cuda_driver, nccl, …) is there and empty.
/// Of the environment only CUDA_*, NCCL_*, OMP_* and MEGATOKEN_* are kept.
Fields collect_provenance();

/// A random version-4 UUID.
std::string new_uuid();
/// results/<utc>-<host>-<id>.h5, with the first digits of the run's id; makes the folder.
std::string default_result_path(const std::string& run_id);
/// {"a": "1"} as JSON.
std::string to_json(const std::map<std::string, std::string>& tags);

}  // namespace megatoken
