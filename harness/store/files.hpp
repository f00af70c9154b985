// Files that are never half-written: the bytes go to a file beside, are synced, and take the name in one step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace megatoken {

/// Writes PATH.tmp and renames it to PATH, replacing what was there. On an Environment Error (disk full, read-only, no such folder) PATH
/// is as before.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
void write_file(const std::string& path, std::span<const std::byte> bytes);
void write_file(const std::string& path, std::string_view text);

/// Like write_file, but a usage Error when PATH exists, decided by the file system in one step: of two processes one wins.
void create_file(const std::string& path, std::span<const std::byte> bytes);

/// Tells whether PATH is still the file and the content that it was: a removed file's inode may be given to the next one, so size and
/// time of the last change belong to it.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0, seconds = 0, nanoseconds = 0;
  bool operator==(const FileIdentity&) const = default;
};
/// Nothing when PATH does not exist.
std::optional<FileIdentity> file_identity(const std::string& path);

/// `length` random hexadecimal digits from the system.
std::string random_hex(size_t length);

}  // namespace megatoken
