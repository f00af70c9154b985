// UCSC .2bit: an index of names and offsets, then per sequence the N blocks, the soft-mask blocks and four bases a byte (T C A G = 0 1 2 3).
// Both byte orders, 32-bit (version 0) and 64-bit (version 1) offsets. Every size is held against the file before memory is taken for it.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "datasets/sequence.hpp"

namespace megatoken {

/// Whether the file starts with the .2bit signature, in either byte order.
bool is_two_bit(const std::string& path);

class TwoBitReader {
 public:
  /// Reads the index. Throws a usage Error naming file and byte offset for what is no .2bit file or is cut short.
  explicit TwoBitReader(const std::string& path);

  int64_t count() const { return static_cast<int64_t>(entries_.size()); }
  const std::string& name(int64_t i) const { return entries_[static_cast<size_t>(i)].name; }
  Sequence read(int64_t i);

 private:
  struct Entry {
    std::string name;
    int64_t offset;
  };
  void take(void* to, int64_t bytes);
  uint32_t take_u32();
  std::vector<Interval> take_blocks(int64_t length, const char* what);

  std::string path_;
  std::ifstream file_;
  int64_t size_ = 0, at_ = 0;
  bool swapped_ = false;
  std::vector<Entry> entries_;
};

}  // namespace megatoken
