// Character vectors out of an R data base (.rdb), without R. The file is a run of records: a big-endian u32 (unpacked length), then one
// zlib stream of R's XDR serialisation ("X\n", versions, then the object, all numbers big-endian).
#pragma once
#include <cstdint>
#include <string>

namespace megatoken {

/// Record `number` (from 0), which must be a character vector: its strings as lines, each ended by a line feed.
/// Throws a usage Error naming file, record and byte offset for a damaged or different file.
std::string read_r_lines(const std::string& rdb, int64_t number);

}  // namespace megatoken
