// Result tables in other formats.
#pragma once
#include <string>

#include "harness/store/result_data.hpp"

namespace megatoken {

/// Every non-empty table as a list of row objects; missing values are left out. Written to PATH.tmp, then renamed.
void write_json(const ResultData& data, const std::string& path);

}  // namespace megatoken
