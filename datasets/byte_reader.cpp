#include "datasets/byte_reader.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "datasets/digest.hpp"
#include "reference/core/error.hpp"

namespace megatoken {
namespace {

constexpr size_t kBlock = 1 << 16;
constexpr unsigned char kGzipMagic[2] = {0x1f, 0x8b};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// BGZF marks each gzip member with an extra field 'B' 'C' of two bytes (SAM specification, section 4.1).
bool is_bgzf(const unsigned char* p, size_t count) {
  return count >= 18 && p[2] == 8 && (p[3] & 4) != 0 && p[12] == 'B' && p[13] == 'C' && p[14] == 2 && p[15] == 0;
}

}  // namespace

struct ByteReader::State {
  std::string path;
  std::unique_ptr<std::FILE, CloseFile> file;
  FilePacking packing = FilePacking::Plain;
  std::vector<unsigned char> packed = std::vector<unsigned char>(kBlock);
  int64_t packed_end = 0;     // offset in the file just behind the bytes held in `packed`
  z_stream stream{};
  bool inside_member = true;  // false between the end of one gzip member and the start of the next
  bool finished = false;

  ~State() {
    if (packing != FilePacking::Plain) inflateEnd(&stream);
  }

  int64_t offset() const { return packed_end - stream.avail_in; }

  /// Reads the next piece of the file behind what is still unread; false at the end of the file.
  bool refill() {
    std::memmove(packed.data(), stream.next_in, stream.avail_in);
    const size_t got = std::fread(packed.data() + stream.avail_in, 1, kBlock - stream.avail_in, file.get());
    if (got == 0 && std::ferror(file.get()))
      throw Error(ErrorKind::Environment, format("cannot read {} at byte {}: {}", path, packed_end, std::strerror(errno)));
    packed_end += static_cast<int64_t>(got);
    stream.next_in = packed.data();
    stream.avail_in += static_cast<uInt>(got);
    return got > 0;
  }

  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorKind::Usage, format("{}: {} at byte {} of the packed file", path, what, offset()), "get the file again");
  }

  /// Between members: another member follows, the file ends, or something that is no gzip follows (zero padding is allowed).
  void begin_member() {
    while (stream.avail_in < 2 && refill()) {}
    if (stream.avail_in == 0) {
      if (packing == FilePacking::Bgzf && stream.total_out > 0) damaged("truncated BGZF: the end marker is missing");
      finished = true;
      return;
    }
    if (stream.avail_in >= 2 && std::memcmp(stream.next_in, kGzipMagic, 2) == 0) {
      inflateReset(&stream);
      inside_member = true;
      return;
    }
    do {
      for (; stream.avail_in > 0; ++stream.next_in, --stream.avail_in)
        if (*stream.next_in != 0) damaged("bytes that are no gzip follow the gzip data");
    } while (refill());
    finished = true;
  }

  size_t inflate_into(char* to, size_t count) {
    stream.next_out = reinterpret_cast<Bytef*>(to);
    stream.avail_out = static_cast<uInt>(count);
    while (stream.avail_out > 0 && !finished) {
      if (!inside_member) {
        begin_member();
        continue;
      }
      if (stream.avail_in == 0 && !refill()) damaged("truncated gzip: the file ends inside compressed data");
      const int status = inflate(&stream, Z_NO_FLUSH);
      if (status == Z_STREAM_END) inside_member = false;
      else if (status == Z_MEM_ERROR) throw Error(ErrorKind::Environment, format("out of memory while unpacking {}", path));
      else if (status != Z_OK && status != Z_BUF_ERROR) damaged(format("damaged gzip ({})", stream.msg ? stream.msg : "unknown cause"));
    }
    return count - stream.avail_out;
  }

  size_t copy_into(char* to, size_t count) {
    size_t done = 0;
    while (done < count && (stream.avail_in > 0 || refill())) {
      const size_t take = std::min<size_t>(count - done, stream.avail_in);
      std::memcpy(to + done, stream.next_in, take);
      stream.next_in += take;
      stream.avail_in -= static_cast<uInt>(take);
      done += take;
    }
    return done;
  }
};

ByteReader::ByteReader(const std::string& path) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.path = path;
  s.file.reset(std::fopen(path.c_str(), "rb"));
  if (!s.file) throw Error(ErrorKind::Usage, format("cannot open {}: {}", path, std::strerror(errno)), "check the path");
  s.stream.next_in = s.packed.data();
  s.refill();
  if (s.stream.avail_in < 2 || std::memcmp(s.packed.data(), kGzipMagic, 2) != 0) return;
  const bool blocked = is_bgzf(s.packed.data(), s.stream.avail_in);
  if (inflateInit2(&s.stream, 15 + 16) != Z_OK) throw Error(ErrorKind::Environment, format("out of memory while opening {}", path));
  s.packing = blocked ? FilePacking::Bgzf : FilePacking::Gzip;
}

ByteReader::~ByteReader() = default;

FilePacking ByteReader::packing() const { return state_->packing; }
const std::string& ByteReader::path() const { return state_->path; }

size_t ByteReader::read(char* to, size_t count) {
  constexpr size_t kMost = size_t{1} << 30;  // zlib counts in 32 bits
  size_t done = 0;
  while (done < count) {
    const size_t ask = std::min(count - done, kMost);
    const size_t got = state_->packing == FilePacking::Plain ? state_->copy_into(to + done, ask) : state_->inflate_into(to + done, ask);
    done += got;
    if (got < ask) break;
  }
  return done;
}

std::string read_bytes(const std::string& path) {
  ByteReader reader(path);
  std::string content, block(kBlock, '\0');
  while (const size_t got = reader.read(block.data(), block.size())) content.append(block, 0, got);
  return content;
}

ContentDigest content_digest(const std::string& path) {
  ByteReader reader(path);
  Sha256 digest;
  ContentDigest result;
  std::string block(kBlock, '\0');
  while (const size_t got = reader.read(block.data(), block.size())) {
    digest.update(std::string_view(block).substr(0, got));
    result.bytes += static_cast<int64_t>(got);
  }
  result.sha256 = digest.hex();
  return result;
}

}  // namespace megatoken
