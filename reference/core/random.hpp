// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC'11): a counter in, four random words out, no state.
// A value of a test input depends only on (seed, tensor name, flat index), so any row or shard can be made
// alone, on host or device, with the same bits.
#pragma once
#include <cstdint>
#include <string_view>

#include "reference/core/host_device.hpp"

namespace megatoken {

struct Philox {
  uint32_t word[4];
};

MEGATOKEN_HD inline Philox philox4x32(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The stream of one tensor: values by flat index.
class RandomStream {
 public:
  RandomStream(uint64_t seed, std::string_view name) : seed_(seed), name_(0xcbf29ce484222325ull) {
    for (char c : name) name_ = (name_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;  // FNV-1a
  }

  MEGATOKEN_HD Philox words(int64_t index) const {
    const uint64_t i = static_cast<uint64_t>(index);
    return philox4x32(static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), static_cast<uint32_t>(name_),
                      static_cast<uint32_t>(name_ >> 32), static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32));
  }
  /// Uniform in [0, 1), 53 random bits.
  MEGATOKEN_HD double uniform(int64_t index) const {
    const Philox r = words(index);
    return static_cast<double>((static_cast<uint64_t>(r.word[0]) << 32 | r.word[1]) >> 11) * 0x1p-53;
  }
  MEGATOKEN_HD double uniform(int64_t index, double low, double high) const { return low + (high - low) * uniform(index); }
  /// Close to standard normal: the sum of the eight 16-bit lanes of one block (Irwin–Hall), centred and scaled to variance 1.
  /// Integer sums and one product: the same bits on every machine and device, which log and cos would not give; |x| < 4.9.
  MEGATOKEN_HD double normal(int64_t index) const {
    const Philox r = words(index);
    int64_t sum = 0;
    for (uint32_t word : r.word) sum += (word & 0xffff) + (word >> 16);
    return static_cast<double>(2 * sum - 8 * 65535) * (0.5 / 53509.51992145008);  // sqrt(8 (2^32 - 1) / 12)
  }
  /// Uniform integer in [0, n).
  MEGATOKEN_HD int64_t integer(int64_t index, int64_t n) const {
    const Philox r = words(index);
    return static_cast<int64_t>((static_cast<uint64_t>(r.word[0]) << 32 | r.word[1]) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t seed_, name_;
};

}  // namespace megatoken
