// Text that other programs must be able to read.
#pragma once
#include <string>
#include <string_view>

namespace megatoken {

/// The text with every byte that is not part of valid UTF-8, and every NUL, replaced by U+FFFD: HDF5 strings end at a NUL, and readers
/// refuse invalid UTF-8. Command lines and error messages may hold both.
std::string valid_utf8(std::string_view text);

/// UTC now as 2026-01-31T12:00:00Z.
std::string utc_now();

}  // namespace megatoken
