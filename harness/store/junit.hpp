// The results and checks of a run as JUnit XML, which CI systems show: one suite per component, one test case per key (its last row).
#pragma once
#include <string>

#include "harness/store/result_data.hpp"

namespace megatoken {

std::string junit_xml(const ResultData& data);

/// Writes the XML to a file, replacing it: unlike a result file it can be made again.
void write_junit(const std::string& path, const ResultData& data);

}  // namespace megatoken
