#include "datasets/digest.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace megatoken {
namespace {

uint32_t load(const uint8_t* p, bool big_endian) {
  return big_endian ? uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3]
                    : uint32_t{p[3]} << 24 | uint32_t{p[2]} << 16 | uint32_t{p[1]} << 8 | p[0];
}

/// floor(2^32 |sin i|), i = 1..64: exact in double, as RFC 1321 defines them.
std::array<uint32_t, 64> md5_constants() {
  std::array<uint32_t, 64> k;
  for (int i = 0; i < 64; ++i) k[static_cast<size_t>(i)] = static_cast<uint32_t>(std::floor(0x1p32 * std::abs(std::sin(i + 1.0))));
  return k;
}

constexpr uint32_t kSha256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Md5Rounds::block(const uint8_t* bytes) {
  static const std::array<uint32_t, 64> kSine = md5_constants();
  static constexpr int kShift[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  uint32_t m[16];
  for (int i = 0; i < 16; ++i) m[i] = load(bytes + 4 * i, kBigEndian);
  auto [a, b, c, d] = state;
  for (int i = 0; i < 64; ++i) {
    uint32_t f;
    int g;
    if (i < 16) f = (b & c) | (~b & d), g = i;
    else if (i < 32) f = (d & b) | (~d & c), g = (5 * i + 1) % 16;
    else if (i < 48) f = b ^ c ^ d, g = (3 * i + 5) % 16;
    else f = c ^ (b | ~d), g = (7 * i) % 16;
    const uint32_t next = b + std::rotl(a + f + kSine[static_cast<size_t>(i)] + m[g], kShift[i / 16][i % 4]);
    a = d, d = c, c = b, b = next;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

void Sha256Rounds::block(const uint8_t* bytes) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = load(bytes + 4 * i, kBigEndian);
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

template <class Rounds>
void Digest<Rounds>::update(std::string_view bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  const size_t waiting = length_ % 64;
  length_ += left;
  if (waiting > 0) {
    const size_t take = std::min(left, 64 - waiting);
    std::memcpy(pending_.data() + waiting, data, take);
    data += take, left -= take;
    if (waiting + take < 64) return;
    rounds_.block(pending_.data());
  }
  for (; left >= 64; data += 64, left -= 64) rounds_.block(data);
  if (left > 0) std::memcpy(pending_.data(), data, left);
}

template <class Rounds>
std::string Digest<Rounds>::hex() {
  const uint64_t bits = length_ * 8;
  update(std::string_view("\x80", 1));
  static constexpr char kZeros[64] = {};
  update(std::string_view(kZeros, (64 + 56 - length_ % 64) % 64));
  char end[8];
  for (int i = 0; i < 8; ++i) end[i] = static_cast<char>(bits >> 8 * (Rounds::kBigEndian ? 7 - i : i));
  update(std::string_view(end, 8));

  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint32_t word : rounds_.state)
    for (int i = 0; i < 4; ++i) {
      const uint32_t byte = word >> 8 * (Rounds::kBigEndian ? 3 - i : i) & 0xff;
      text += kDigits[byte >> 4], text += kDigits[byte & 15];
    }
  return text;
}

template class Digest<Md5Rounds>;
template class Digest<Sha256Rounds>;

}  // namespace megatoken
