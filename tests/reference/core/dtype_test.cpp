// Small number formats: every code decodes to its value, and every double rounds once, to the nearest code, ties to even.
#include "reference/core/dtype.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reference/core/random.hpp"
#include "tests/compare.hpp"

namespace megatoken {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();

/// What a code is worth, by the definition of the format.
double value_of(uint32_t code, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa = static_cast<double>(code & ((1u << mantissa_bits) - 1)) / (1 << mantissa_bits);
  const double sign = code >> (exponent_bits + mantissa_bits) ? -1 : 1;
  return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias));
}

/// Every pair of neighbours, from zero up: each value, the midpoint and the doubles just beside it.
template <class T>
void expect_nearest_even(uint32_t largest) {
  const auto bits = [](double value) { return static_cast<uint32_t>(T(value).bits); };
  const uint32_t sign = 1u << (8 * sizeof(T) - 1);
  for (uint32_t code = 0; code < largest; ++code) {
    T low, high;
    low.bits = static_cast<decltype(low.bits)>(code), high.bits = static_cast<decltype(high.bits)>(code + 1);
    const double a = static_cast<double>(low), b = static_cast<double>(high), middle = (a + b) / 2;
    ASSERT_LT(a, b);
    ASSERT_EQ(bits(a), code);
    ASSERT_EQ(bits(middle), code % 2 ? code + 1 : code) << "tie at " << middle;
    ASSERT_EQ(bits(std::nextafter(middle, 0)), code);
    ASSERT_EQ(bits(std::nextafter(middle, kInfinity)), code + 1);
    ASSERT_EQ(bits(-middle), (code % 2 ? code + 1 : code) | sign);
    ASSERT_EQ(bits(-b), (code + 1) | sign);
  }
}

template <class T>
void expect_ieee_decoding(int exponent_bits, int mantissa_bits) {
  const uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits, sign = infinity << 1 & ~infinity;
  for (uint32_t code = 0; code < 0x10000; ++code) {
    T x;
    x.bits = static_cast<uint16_t>(code);
    const uint32_t magnitude = code & ~sign;
    const double got = static_cast<double>(x), narrow = static_cast<float>(x);
    if (magnitude > infinity) {
      ASSERT_TRUE(std::isnan(got) && std::isnan(narrow)) << code;
      continue;
    }
    const double want = magnitude == infinity ? (code & sign ? -kInfinity : kInfinity) : value_of(code, exponent_bits, mantissa_bits);
    ASSERT_EQ(got, want) << code;
    ASSERT_EQ(narrow, want) << code;
    ASSERT_EQ(std::signbit(got), std::signbit(want)) << code;
    ASSERT_EQ(std::signbit(narrow), std::signbit(want)) << code;
    ASSERT_EQ(T(want).bits, code);
  }
}

TEST(Half, EveryCodeDecodesToItsValue) { expect_ieee_decoding<Half>(5, 10); }
TEST(BFloat16, EveryCodeDecodesToItsValue) { expect_ieee_decoding<BFloat16>(8, 7); }
TEST(Half, EveryDoubleRoundsToTheNearestEvenCode) { expect_nearest_even<Half>(0x7bff); }
TEST(BFloat16, EveryDoubleRoundsToTheNearestEvenCode) { expect_nearest_even<BFloat16>(0x7f7f); }
TEST(E4M3, EveryDoubleRoundsToTheNearestEvenCode) { expect_nearest_even<E4M3>(0x7e); }

TEST(E4M3, EveryCodeDecodesToItsValue) {
  for (uint32_t code = 0; code < 256; ++code) {
    E4M3 x;
    x.bits = static_cast<uint8_t>(code);
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(static_cast<double>(x)));
      continue;
    }
    EXPECT_EQ(static_cast<double>(x), value_of(code, 4, 3)) << code;
    EXPECT_EQ(static_cast<float>(x), value_of(code, 4, 3)) << code;
    EXPECT_EQ(E4M3(value_of(code, 4, 3)).bits, code);
  }
}

TEST(Half, OverflowsToInfinityFromTheMidpointOn) {
  EXPECT_EQ(Half(65519.999).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0).bits, 0x7c00);
  EXPECT_EQ(Half(-65520.0).bits, 0xfc00);
  EXPECT_EQ(Half(1e300).bits, 0x7c00);
  EXPECT_EQ(Half(kInfinity).bits, 0x7c00);
}

TEST(BFloat16, OverflowsToInfinityFromTheMidpointOn) {
  const double largest = 0x1.fep127, middle = 0x1.ffp127;
  EXPECT_EQ(BFloat16(largest).bits, 0x7f7f);
  EXPECT_EQ(BFloat16(std::nextafter(middle, 0)).bits, 0x7f7f);
  EXPECT_EQ(BFloat16(middle).bits, 0x7f80);
  EXPECT_EQ(BFloat16(-kInfinity).bits, 0xff80);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(E4M3, SaturatesInsteadOfOverflowing) {
  for (double large : {448.0, 449.0, 464.0, 465.0, 480.0, 1e6, 1e300, kInfinity}) {
    EXPECT_EQ(E4M3(large).bits, 0x7e) << large;
    EXPECT_EQ(E4M3(-large).bits, 0xfe) << large;
  }
  EXPECT_EQ(E4M3(432.0).bits, 0x7e) << "the tie between 416 and 448 goes to the even code";
  EXPECT_EQ(E4M3(431.0).bits, 0x7d);
}

TEST(SmallFloats, UnderflowToSignedZeroAtHalfTheSmallestNumber) {
  EXPECT_EQ(Half(0x1p-25).bits, 0);
  EXPECT_EQ(Half(std::nextafter(0x1p-25, 1)).bits, 1);
  EXPECT_EQ(Half(-0x1p-30).bits, 0x8000);
  EXPECT_EQ(BFloat16(0x1p-134).bits, 0);
  EXPECT_EQ(BFloat16(std::nextafter(0x1p-134, 1)).bits, 1);
  EXPECT_EQ(E4M3(0x1p-10).bits, 0);
  EXPECT_EQ(E4M3(std::nextafter(0x1p-10, 1)).bits, 1);
  EXPECT_EQ(E4M3(-1e-300).bits, 0x80);
  EXPECT_EQ(Half(5e-324).bits, 0);
}

TEST(SmallFloats, NaNStaysNaN) {
  const double nan = std::nan("");
  EXPECT_TRUE(std::isnan(static_cast<double>(Half(nan))));
  EXPECT_TRUE(std::isnan(static_cast<double>(BFloat16(nan))));
  EXPECT_TRUE(std::isnan(static_cast<double>(E4M3(nan))));
  for (uint32_t word : {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0xff800001u})  // some whose upper half alone would be an infinity, or a carry away from zero
    EXPECT_TRUE(std::isnan(static_cast<double>(BFloat16(std::bit_cast<float>(word))))) << word;
}

TEST(SmallFloats, RoundOnceAndNotThroughFloat) {
  EXPECT_EQ(static_cast<double>(Half(1 + 0x1p-11 + 0x1p-40)), 1 + 0x1p-10) << "a float would sit on the tie and go down to 1";
  EXPECT_EQ(static_cast<double>(BFloat16(1 + 0x1p-8 + 0x1p-40)), 1 + 0x1p-7);
  EXPECT_EQ(static_cast<double>(E4M3(1 + 0x1p-4 + 0x1p-40)), 1 + 0x1p-3);
}

TEST(BFloat16, FromFloatEqualsFromDouble) {
  const RandomStream random(1, "float patterns");
  for (int64_t i = 0; i < 400000; ++i) {
    const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    const uint32_t word = i < 6 * 65536 ? static_cast<uint32_t>(i / 6) << 16 | lower[i % 6] : random.words(i).word[0];
    const auto x = std::bit_cast<float>(word);
    if (std::isnan(x)) continue;
    ASSERT_EQ(BFloat16(x).bits, BFloat16(static_cast<double>(x)).bits) << std::hexfloat << x;
  }
}

TEST(DTypes, NamesReadBack) {
  for (DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::E4M3, DType::I32, DType::I64, DType::U8}) EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  EXPECT_EQ(test::message_of([] { parse_dtype("bf61"); }), "unknown dtype 'bf61'; did you mean bf16?");
}

TEST(DTypes, SizesAndRoundoffFitTheTypes) {
  EXPECT_EQ(size_of(DType::F64), 8);
  EXPECT_EQ(size_of(DType::BF16), static_cast<int64_t>(sizeof(BFloat16)));
  EXPECT_EQ(size_of(DType::E4M3), static_cast<int64_t>(sizeof(E4M3)));
  EXPECT_EQ(unit_roundoff(DType::F64), std::numeric_limits<double>::epsilon() / 2);
  EXPECT_EQ(unit_roundoff(DType::F32), std::numeric_limits<float>::epsilon() / 2);
  EXPECT_EQ(unit_roundoff(DType::F16), 0x1p-11);
  EXPECT_EQ(unit_roundoff(DType::BF16), 0x1p-8);
  EXPECT_EQ(accumulator_of(DType::BF16), DType::F32);
  EXPECT_EQ(accumulator_of(DType::F64), DType::F64);
  EXPECT_TRUE(is_float(DType::E4M3));
  EXPECT_FALSE(is_float(DType::I32));
}

}  // namespace
}  // namespace megatoken
