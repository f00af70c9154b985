// Number formats. Every conversion from a wider number rounds once, to nearest even, straight from the double:
// going through float first would round twice.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#include "reference/core/host_device.hpp"

namespace megatoken {

enum class DType : uint8_t { F64, F32, F16, BF16, E4M3, I32, I64, U8 };

/// Encodes `value` in a small IEEE-like format of kExponent and kMantissa bits (sign on top), round to nearest even.
/// kFinite formats (E4M3) have no infinity: overflow saturates to the largest number, as the GPU's satfinite conversions do.
template <int kExponent, int kMantissa, bool kFinite>
MEGATOKEN_HD inline uint32_t encode_small_float(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint32_t sign = static_cast<uint32_t>(bits >> 63) << (kExponent + kMantissa);
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint32_t kExponentOnes = (1u << kExponent) - 1;
  constexpr uint32_t kInfinity = kExponentOnes << kMantissa;
  constexpr uint32_t kNan = kFinite ? (kInfinity | ((1u << kMantissa) - 1)) : (kInfinity | (1u << (kMantissa - 1)));
  constexpr uint32_t kOverflow = kFinite ? kNan - 1 : kInfinity;
  const uint64_t magnitude = bits & 0x7fffffffffffffffull;
  if (magnitude > 0x7ff0000000000000ull) return sign | kNan;
  if (magnitude == 0x7ff0000000000000ull) return sign | kOverflow;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;                 // double subnormals are far below every format here
  uint64_t mantissa = magnitude & 0xfffffffffffffull;
  int drop = 52 - kMantissa;                                                     // mantissa bits that fall away
  uint32_t code = 0;
  if (exponent >= 1 - kBias) {
    if (exponent > kBias + 1) return sign | kOverflow;
    code = static_cast<uint32_t>(exponent + kBias) << kMantissa;
  } else {                                                                       // subnormal result: the leading one becomes explicit
    drop += (1 - kBias) - exponent;
    if (drop > 54) return sign;
    mantissa |= 1ull << 52;
  }
  const uint64_t half = 1ull << (drop - 1);
  const uint64_t rest = mantissa & ((half << 1) - 1);
  code += static_cast<uint32_t>(mantissa >> drop);
  if (rest > half || (rest == half && (code & 1))) ++code;                       // a carry walks into the exponent, as it should
  return sign | (code > kOverflow ? kOverflow : code);
}

template <int kExponent, int kMantissa, bool kFinite>
MEGATOKEN_HD inline double decode_small_float(uint32_t code) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  const uint64_t sign = static_cast<uint64_t>(code >> (kExponent + kMantissa) & 1) << 63;
  const int exponent = static_cast<int>(code >> kMantissa & ((1u << kExponent) - 1));
  uint64_t mantissa = code & ((1u << kMantissa) - 1);
  const bool top = exponent == (1 << kExponent) - 1;
  if (top && (!kFinite || mantissa == (1u << kMantissa) - 1)) {
    const bool infinite = !kFinite && mantissa == 0;
    return std::bit_cast<double>(sign | 0x7ff0000000000000ull | (infinite ? 0 : 0x8000000000000ull));
  }
  if (exponent == 0) {                                                           // mantissa · 2^(1-bias-kMantissa), exactly
    const double unit = std::bit_cast<double>(static_cast<uint64_t>(1023 + 1 - kBias - kMantissa) << 52);
    const double magnitude = static_cast<double>(mantissa) * unit;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<double>(sign | static_cast<uint64_t>(exponent - kBias + 1023) << 52 | mantissa << (52 - kMantissa));
}

struct Half {
  uint16_t bits = 0;
  Half() = default;
  MEGATOKEN_HD explicit Half(double value) : bits(static_cast<uint16_t>(encode_small_float<5, 10, false>(value))) {}
  MEGATOKEN_HD explicit operator double() const { return decode_small_float<5, 10, false>(bits); }
  MEGATOKEN_HD explicit operator float() const {                                 // the same without branches, so that loops become vector code
    const uint32_t magnitude = (bits & 0x7fffu) << 13;
    const uint32_t word = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);  // from exponent bias 15 to 127, subnormals too
    const uint32_t special = magnitude >= 0x7c00u << 13 ? 0x7f800000u : 0;       // infinities and NaN
    return std::bit_cast<float>(word | special | (bits & 0x8000u) << 16);
  }
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  MEGATOKEN_HD explicit BFloat16(double value) : bits(static_cast<uint16_t>(encode_small_float<8, 7, false>(value))) {}
  MEGATOKEN_HD explicit BFloat16(float value) {                                  // the common conversion, without the detour through double
    const uint32_t word = std::bit_cast<uint32_t>(value);
    bits = (word & 0x7fffffffu) > 0x7f800000u ? static_cast<uint16_t>((word >> 16 & 0x8000u) | 0x7fc0u)
                                              : static_cast<uint16_t>((word + 0x7fffu + (word >> 16 & 1)) >> 16);
  }
  MEGATOKEN_HD explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  MEGATOKEN_HD explicit operator double() const { return static_cast<float>(*this); }
};

/// OCP FP8 E4M3: largest 448, no infinity.
struct E4M3 {
  uint8_t bits = 0;
  E4M3() = default;
  MEGATOKEN_HD explicit E4M3(double value) : bits(static_cast<uint8_t>(encode_small_float<4, 3, true>(value))) {}
  MEGATOKEN_HD explicit operator double() const { return decode_small_float<4, 3, true>(bits); }
  MEGATOKEN_HD explicit operator float() const { return static_cast<float>(static_cast<double>(*this)); }
};

template <class T> inline constexpr bool kIsDType = false;
template <class T> struct DTypeOf;
#define MEGATOKEN_DTYPE(type, value)              \
  template <> struct DTypeOf<type> { static constexpr DType kValue = DType::value; }; \
  template <> inline constexpr bool kIsDType<type> = true;
MEGATOKEN_DTYPE(double, F64)
MEGATOKEN_DTYPE(float, F32)
MEGATOKEN_DTYPE(Half, F16)
MEGATOKEN_DTYPE(BFloat16, BF16)
MEGATOKEN_DTYPE(E4M3, E4M3)
MEGATOKEN_DTYPE(int32_t, I32)
MEGATOKEN_DTYPE(int64_t, I64)
MEGATOKEN_DTYPE(uint8_t, U8)
#undef MEGATOKEN_DTYPE

/// Arithmetic type that goes with storage type T: double for double, float for everything narrower.
template <class T> using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

int64_t size_of(DType dtype);           // bytes per element
std::string to_string(DType dtype);     // "bf16"
DType parse_dtype(const std::string& name);
bool is_float(DType dtype);
/// Half the distance from 1 to the next number: 2^-8 for bf16.
double unit_roundoff(DType dtype);
/// fp64 cases accumulate in fp64, all others in fp32.
inline DType accumulator_of(DType dtype) { return dtype == DType::F64 ? DType::F64 : DType::F32; }

/// Calls f.template operator()<T>() with the C++ type of a floating dtype.
template <class F>
decltype(auto) dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F64: return f.template operator()<double>();
    case DType::F16: return f.template operator()<Half>();
    case DType::BF16: return f.template operator()<BFloat16>();
    case DType::E4M3: return f.template operator()<E4M3>();
    default: return f.template operator()<float>();
  }
}

}  // namespace megatoken
