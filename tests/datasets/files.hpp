// Small files made on the spot, in every packing the readers must handle, and a check of what an error says.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "reference/core/error.hpp"

namespace megatoken::testing {

/// A folder of its own for one test, gone afterwards.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "megatoken-datasets-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

  /// Writes the bytes and returns the path.
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::string path_;
};

/// One gzip member (bits = 31) or raw deflate data (bits = -15).
inline std::string deflate_bytes(std::string_view bytes, int bits) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline std::string gzip(std::string_view bytes) { return deflate_bytes(bytes, 31); }

inline std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
  return text;
}

/// One BGZF block: a gzip member whose extra field gives its own size.
inline std::string bgzf_block(std::string_view bytes) {
  const std::string packed = deflate_bytes(bytes, -15);
  const size_t size = 18 + packed.size() + 8;
  std::string block("\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0", 16);
  block += little_endian(size - 1, 2) + packed;
  block += little_endian(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())), 4);
  return block + little_endian(bytes.size(), 4);
}

/// BGZF with blocks of `block` bytes and the empty block at the end.
inline std::string bgzf(std::string_view bytes, size_t block) {
  std::string packed;
  for (size_t at = 0; at < bytes.size(); at += block) packed += bgzf_block(bytes.substr(at, block));
  return packed + bgzf_block("");
}

/// The error that `call` throws must be of `kind` and its text must hold every one of `parts`.
template <class Call>
void expect_error(ErrorKind kind, std::initializer_list<std::string> parts, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "no error was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    const std::string text = error.what();
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is missing in: " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << "more than one line: " << text;
  }
}

}  // namespace megatoken::testing
