#include "datasets/text.hpp"

#include "datasets/byte_reader.hpp"
#include "reference/core/error.hpp"

namespace megatoken {
namespace {

bool is_rare_control(unsigned char c) { return c < 32 && !(c >= 7 && c <= 13) && c != 27; }  // all but bell … carriage return, escape

/// Binary files hold zero bytes almost always; short or compressed ones without any still have many control characters.
void refuse_binary(const std::string& path, std::string_view bytes) {
  constexpr int64_t kControlsPerMille = 30;
  int64_t controls = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c == 0)
      throw Error(ErrorKind::Usage, format("{} is not a text file: zero byte at offset {}", path, i),
                  "give a text file (UTF-8 or another one-byte encoding)");
    controls += is_rare_control(c);
  }
  if (controls * 1000 > static_cast<int64_t>(bytes.size()) * kControlsPerMille)
    throw Error(ErrorKind::Usage, format("{} is not a text file: {} of {} bytes are control characters", path, controls, bytes.size()),
                "give a text file (UTF-8 or another one-byte encoding)");
}

}  // namespace

int64_t first_invalid_utf8(std::string_view bytes) {
  const auto at = [&](size_t i) { return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u; };
  for (size_t i = 0; i < bytes.size();) {
    const unsigned lead = at(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t length = lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
    // The second byte carries the limits that rule out overlong forms, surrogates and code points above 10ffff.
    const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    bool valid = length > 0 && at(i + 1) >= low && at(i + 1) <= high;
    for (size_t k = 2; k < length; ++k) valid = valid && (at(i + k) & 0xc0) == 0x80;
    if (!valid) return static_cast<int64_t>(i);
    i += length;
  }
  return -1;
}

Text read_text(const std::string& path) {
  Text text;
  text.bytes = read_bytes(path);
  if (text.bytes.empty()) throw Error(ErrorKind::Usage, format("{} is empty", path), "give a text file with at least one byte");
  refuse_binary(path, text.bytes);
  text.invalid_utf8 = first_invalid_utf8(text.bytes);
  return text;
}

}  // namespace megatoken
