// Message digests: MD5 (RFC 1321) labels sequences, because sequence dictionaries carry it as "M5"; SHA-256 (FIPS 180-4) pins files.
// Both cut the message into 64-byte blocks and end it with 0x80, zeros and the length in bits; they differ in the rounds and the byte order.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace megatoken {

struct Md5Rounds {
  static constexpr bool kBigEndian = false;
  std::array<uint32_t, 4> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  void block(const uint8_t* bytes);
};

struct Sha256Rounds {
  static constexpr bool kBigEndian = true;
  std::array<uint32_t, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  void block(const uint8_t* bytes);
};

template <class Rounds>
class Digest {
 public:
  void update(std::string_view bytes);
  /// Lower-case hexadecimal digest of everything so far. Ends the message: use a new object for the next one.
  std::string hex();

 private:
  Rounds rounds_;
  std::array<uint8_t, 64> pending_{};  // the first length_ % 64 bytes wait for their block to fill
  uint64_t length_ = 0;
};

using Md5 = Digest<Md5Rounds>;
using Sha256 = Digest<Sha256Rounds>;

inline std::string md5_hex(std::string_view bytes) {
  Md5 digest;
  digest.update(bytes);
  return digest.hex();
}

inline std::string sha256_hex(std::string_view bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

}  // namespace megatoken
