// The balance check: visible (query, key) pairs per rank and per ring step, counted from the layouts themselves.
#pragma once
#include <string>
#include <vector>

#include "harness/store/result_file.hpp"

namespace megatoken {

/// For each "tokens:ranks": prints the table of the contiguous ring and of zig-zag, stores rows, and holds the counts against
/// the closed forms. Returns what disagreed, a line each.
std::vector<std::string> check_balance(const std::vector<std::string>& sizes, ResultFile* file);

}  // namespace megatoken
