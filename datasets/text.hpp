// Text files as bytes, exactly as they are: no normalisation, no line-end conversion. What is no text is refused instead of trained on.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace megatoken {

struct Text {
  std::string bytes;
  int64_t invalid_utf8 = -1;  // offset of the first byte that is not valid UTF-8; -1: all of it is (Latin-1 books are not)
};

/// Plain or gzip. Throws a usage Error for an empty file and for a binary one, naming the offset of what gave it away.
Text read_text(const std::string& path);

/// Offset of the first byte that does not belong to a well-formed UTF-8 sequence (RFC 3629: no surrogates, no overlong forms), or -1.
int64_t first_invalid_utf8(std::string_view bytes);

}  // namespace megatoken
