#include "harness/store/seal.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

constexpr std::string_view kMark = "MTSEAL1:";
constexpr size_t kSealBytes = kMark.size() + 8;
constexpr size_t kBlock = size_t{1} << 20;

uint32_t extend(uint32_t sum, const void* data, size_t size) {
  return static_cast<uint32_t>(crc32_z(sum, static_cast<const Bytef*>(data), size));
}

std::string seal_text(uint32_t sum) { return format("{}{:08x}", kMark, sum); }

}  // namespace

void seal(std::vector<std::byte>& bytes) {
  const auto text = seal_text(extend(0, bytes.data(), bytes.size()));
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  bytes.insert(bytes.end(), data, data + text.size());
}

void check_seal(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<int64_t>(file.tellg()) : -1;
  if (size < 0) throw Error(ErrorKind::Usage, format("{}: {}", path, std::strerror(errno)), "check the path and its permissions");
  std::string text(kSealBytes, '\0');
  file.seekg(std::max<int64_t>(0, size - static_cast<int64_t>(kSealBytes)));
  if (!file.read(text.data(), kSealBytes) || !text.starts_with(kMark)) return;
  file.seekg(0);
  std::vector<char> block(kBlock);
  uint32_t sum = 0;
  for (int64_t left = size - static_cast<int64_t>(kSealBytes); left > 0;) {
    const auto part = std::min<int64_t>(left, kBlock);
    if (!file.read(block.data(), part)) throw Error(ErrorKind::Environment, format("{} cannot be read to its end", path), "check the disk");
    sum = extend(sum, block.data(), static_cast<size_t>(part));
    left -= part;
  }
  if (text != seal_text(sum))
    throw Error(ErrorKind::Usage, format("{} is damaged: its checksum does not fit", path), "restore it or make it again");
}

}  // namespace megatoken
