// A checksum over a whole file, in 16 bytes after its end. HDF5 1.10 has no checksum on strings of variable length and can crash on a
// damaged one, so a sealed file is judged before HDF5 sees it. HDF5 ignores the bytes after its end, and drops them when another program
// changes the file, which is then as safe as any HDF5 file.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace megatoken {

/// Appends the seal: "MTSEAL1:" and the CRC-32 of all bytes before as 8 hexadecimal digits.
void seal(std::vector<std::byte>& bytes);

/// A usage Error when the file has a seal that does not fit its bytes. A file without a seal passes.
void check_seal(const std::string& path);

}  // namespace megatoken
