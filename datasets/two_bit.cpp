#include "datasets/two_bit.hpp"

#include <algorithm>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

constexpr uint32_t kSignature = 0x1a412743;
constexpr char kHint[] = "get the file again, or give the sequence as FASTA";

bool starts_with_signature(std::ifstream& file, bool& swapped) {
  uint32_t signature = 0;
  file.read(reinterpret_cast<char*>(&signature), sizeof signature);
  swapped = signature == __builtin_bswap32(kSignature);
  return file && (swapped || signature == kSignature);
}

}  // namespace

bool is_two_bit(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  bool swapped;
  return file && starts_with_signature(file, swapped);
}

TwoBitReader::TwoBitReader(const std::string& path) : path_(path), file_(path, std::ios::binary | std::ios::ate) {
  if (!file_) throw Error(ErrorKind::Usage, format("cannot open {}", path), "check the path");
  size_ = file_.tellg();
  file_.seekg(0);
  if (!starts_with_signature(file_, swapped_)) throw Error(ErrorKind::Usage, format("{} is not a .2bit file", path), kHint);
  at_ = sizeof kSignature;
  const uint32_t version = take_u32();
  const uint32_t count = take_u32();
  take_u32();  // reserved
  if (version > 1) throw Error(ErrorKind::Usage, format("{}: .2bit version {} is unknown (0 and 1 are read)", path, version), kHint);
  if (count == 0) throw Error(ErrorKind::Usage, format("{} holds no sequence", path), kHint);
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t length = 0;
    take(&length, 1);
    Entry entry{std::string(length, '\0'), 0};
    take(entry.name.data(), length);
    const uint64_t first = take_u32();
    const uint64_t second = version == 1 ? take_u32() : 0;
    const uint64_t offset = version == 0 ? first : swapped_ ? first << 32 | second : second << 32 | first;
    if (offset > static_cast<uint64_t>(size_))
      throw Error(ErrorKind::Usage, format("{}: '{}' is said to start at byte {} of {}", path, entry.name, offset, size_), kHint);
    entry.offset = static_cast<int64_t>(offset);
    entries_.push_back(std::move(entry));
  }
}

void TwoBitReader::take(void* to, int64_t bytes) {
  if (bytes > size_ - at_)
    throw Error(ErrorKind::Usage, format("{}: truncated .2bit: {} bytes wanted at byte {} of {}", path_, bytes, at_, size_), kHint);
  file_.read(static_cast<char*>(to), bytes);
  if (!file_) throw Error(ErrorKind::Environment, format("cannot read {} at byte {}", path_, at_));
  at_ += bytes;
}

uint32_t TwoBitReader::take_u32() {
  uint32_t value = 0;
  take(&value, sizeof value);
  return swapped_ ? __builtin_bswap32(value) : value;
}

std::vector<Interval> TwoBitReader::take_blocks(int64_t length, const char* what) {
  const int64_t count = take_u32();
  if (count > (size_ - at_) / 8)
    throw Error(ErrorKind::Usage, format("{}: truncated .2bit: {} {} announced at byte {} of {}", path_, count, what, at_, size_), kHint);
  std::vector<Interval> blocks(static_cast<size_t>(count));
  for (Interval& block : blocks) block.begin = take_u32();
  for (Interval& block : blocks) block.end = block.begin + take_u32();
  for (const Interval& block : blocks)
    if (block.end > length)
      throw Error(ErrorKind::Usage, format("{}: {} reach base {} of a sequence of {}", path_, what, block.end, length), kHint);
  std::sort(blocks.begin(), blocks.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return blocks;
}

Sequence TwoBitReader::read(int64_t i) {
  const Entry& entry = entries_[static_cast<size_t>(i)];
  at_ = entry.offset;
  file_.seekg(at_);
  Sequence sequence;
  sequence.header = sequence.name = entry.name;
  const int64_t length = take_u32();
  const std::vector<Interval> unknown = take_blocks(length, "N blocks");
  sequence.soft_masked = take_blocks(length, "mask blocks");
  take_u32();  // reserved
  const int64_t packed_bytes = (length + 3) / 4;
  if (packed_bytes > size_ - at_)
    throw Error(ErrorKind::Usage,
                format("{}: truncated .2bit: {} bases of '{}' wanted at byte {} of {}", path_, length, entry.name, at_, size_), kHint);
  std::string packed(static_cast<size_t>(packed_bytes), '\0');
  take(packed.data(), packed_bytes);

  sequence.bases.resize(static_cast<size_t>(length));
  for (size_t k = 0; k < sequence.bases.size(); ++k)
    sequence.bases[k] = "TCAG"[static_cast<unsigned char>(packed[k / 4]) >> (6 - 2 * (k % 4)) & 3];
  for (const Interval& block : unknown) std::fill(sequence.bases.begin() + block.begin, sequence.bases.begin() + block.end, 'N');
  for (int64_t at = 0; at < length; ++at)  // blocks may touch or overlap; runs do not
    if (sequence.bases[static_cast<size_t>(at)] == 'N') extend_runs(sequence.n_runs, at);
  return sequence;
}

}  // namespace megatoken
