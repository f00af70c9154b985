// Files that are never half-written: the bytes go to a file beside, are synced, and take the name in one step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace megatoken {

/// Writes PATH.tmp and renames it to PATH, replacing what was there. On an Environment Error (disk full, read-only, no such folder) PATH
/// is as before.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
void write_file(const std::string& path, std::span<const std::byte> bytes);
void write_file(const std::string& path, std::string_view text);

/// Like write_file, but a usage Error when PATH exists, decided by the file system in one step: of two processes one wins.
void create_file(const std::string& path, std::span<const std::byte> bytes);

/// Device and inode, which tell whether PATH is still the same file; nothing when it does not exist.
std::optional<std::pair<uint64_t, uint64_t>> file_identity(const std::string& path);

/// `length` random hexadecimal digits from the system.
std::string random_hex(size_t length);

}  // namespace megatoken
