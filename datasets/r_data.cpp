#include "datasets/r_data.hpp"

#include <zlib.h>

#include <string_view>

#include "datasets/byte_reader.hpp"
#include "reference/core/error.hpp"

namespace megatoken {
namespace {

constexpr int32_t kCharacterVector = 16, kString = 9;  // the low byte of an object's flags
constexpr int32_t kMissingString = -1;

/// Reads big-endian numbers and bytes one after the other, never beyond the end.
class Cursor {
 public:
  Cursor(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  std::string_view take(int64_t count) {
    if (count < 0 || count > static_cast<int64_t>(bytes_.size()) - at_) fail("ends early");
    const std::string_view part = bytes_.substr(static_cast<size_t>(at_), static_cast<size_t>(count));
    at_ += count;
    return part;
  }
  int32_t number() {
    uint32_t value = 0;
    for (char c : take(4)) value = value << 8 | static_cast<unsigned char>(c);
    return static_cast<int32_t>(value);
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::Usage, format("{}: {} at byte {}", where_, what, at_), "fetch the data set again");
  }
  int64_t at() const { return at_; }
  bool finished() const { return at_ == static_cast<int64_t>(bytes_.size()); }

 private:
  std::string_view bytes_;
  std::string where_;
  int64_t at_ = 0;
};

/// Unpacks the zlib stream at the cursor, which says where the stream ends itself, and moves the cursor behind it.
std::string unpack_record(Cursor& cursor, std::string_view file) {
  const auto length = static_cast<uint32_t>(cursor.number());
  const std::string_view packed = file.substr(static_cast<size_t>(cursor.at()));
  if (length / 1100 > packed.size()) cursor.fail("a record is said to be longer than its packed bytes can hold");  // deflate packs 1032:1 at most
  std::string bytes(length, '\0');
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw Error(ErrorKind::Environment, "out of memory while unpacking R data");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = length;
  const int status = inflate(&stream, Z_FINISH);
  const auto used = static_cast<int64_t>(stream.total_in);
  inflateEnd(&stream);
  if (status != Z_STREAM_END || stream.avail_out != 0) cursor.fail("a record is damaged");
  cursor.take(used);
  return bytes;
}

std::string lines_of(Cursor cursor) {
  if (cursor.take(2) != "X\n") cursor.fail("a record is not in R's XDR format");
  const int32_t version = cursor.number();
  cursor.take(8);                                     // the R that wrote it, the oldest that can read it
  if (version == 3) cursor.take(cursor.number());     // name of the encoding
  else if (version != 2) cursor.fail(format("serialisation version {} is unknown", version));
  if ((cursor.number() & 0xff) != kCharacterVector) cursor.fail("a record is no character vector");
  const int32_t count = cursor.number();
  std::string lines;
  for (int32_t i = 0; i < count; ++i) {
    if ((cursor.number() & 0xff) != kString) cursor.fail("a string is missing");
    const int32_t length = cursor.number();
    if (length == kMissingString) cursor.fail("a string is not available (NA)");
    lines += cursor.take(length);
    lines += '\n';
  }
  if (!cursor.finished()) cursor.fail("a record is longer than its strings");
  return lines;
}

}  // namespace

std::string read_r_lines(const std::string& rdb, int64_t number) {
  const std::string file = read_bytes(rdb);
  Cursor cursor(file, rdb);
  for (int64_t record = 0; !cursor.finished(); ++record) {
    const std::string bytes = unpack_record(cursor, file);
    if (record == number) return lines_of(Cursor(bytes, format("{}, record {}", rdb, number)));
  }
  cursor.fail(format("there is no record {}", number));
}

}  // namespace megatoken
