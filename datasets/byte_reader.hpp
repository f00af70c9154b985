// Reads a file as a stream of bytes, unpacking gzip on the way: one member, many members, or BGZF (blocked gzip, as bgzip writes it).
// Damage is found where it is: every error names the file and the byte offset in the packed file.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace megatoken {

enum class FilePacking { Plain, Gzip, Bgzf };

class ByteReader {
 public:
  /// Opens `path` and recognises its packing by its first bytes, not by its name. Throws a usage Error when it cannot be opened.
  explicit ByteReader(const std::string& path);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  /// Up to `count` unpacked bytes; fewer only at the end of the file, 0 after it.
  size_t read(char* to, size_t count);

  FilePacking packing() const;
  const std::string& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The whole unpacked content.
std::string read_bytes(const std::string& path);

/// SHA-256 and size of the unpacked content: the same for emma.txt and emma.txt.gz.
struct ContentDigest {
  std::string sha256;
  int64_t bytes = 0;
};
ContentDigest content_digest(const std::string& path);

}  // namespace megatoken
