// Vectors as wide as the registers that this build may use, through the compiler's vector types: + − · ÷, comparisons and
// c ? a : b work lane by lane. Everything here inlines to a few instructions.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace megatoken::cpu {

#ifdef __AVX512F__
inline constexpr int kVectorBytes = 64;
#else
inline constexpr int kVectorBytes = 32;
#endif

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
};
template <class T> using Vector = typename VectorOf<T>::Type;
template <class T> inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

/// The integer as wide as a lane: what comparisons of Vector<Real> give, and what they can be combined with.
template <class Real> using LaneInt = std::conditional_t<sizeof(Real) == 8, int64_t, int32_t>;

template <class T>
inline Vector<T> load(const T* from) {
  Vector<T> x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
template <class T>
inline void store(T* to, Vector<T> x) {
  std::memcpy(to, &x, sizeof x);
}
template <class T>
inline Vector<T> all(T value) {
  return Vector<T>{} + value;
}
/// f over all lanes, halves first.
template <class T, class F>
inline T fold_lanes(Vector<T> x, const F& f) {
#pragma GCC unroll 4
  for (int half = kLanes<T> / 2; half > 0; half /= 2) {
    Vector<LaneInt<T>> other;
    for (int i = 0; i < kLanes<T>; ++i) other[i] = i ^ half;
    x = f(x, __builtin_shuffle(x, other));
  }
  return x[0];
}
template <class T>
inline T sum_of_lanes(Vector<T> x) {
  return fold_lanes<T>(x, [](Vector<T> a, Vector<T> b) { return a + b; });
}
template <class T>
inline T largest_of_lanes(Vector<T> x) {
  return fold_lanes<T>(x, [](Vector<T> a, Vector<T> b) { return a > b ? a : b; });
}
template <class T>
inline bool any(Vector<T> mask) {
#ifdef __AVX512F__
  const auto bits = reinterpret_cast<__m512i>(mask);
  return _mm512_test_epi32_mask(bits, bits) != 0;
#else
  return fold_lanes<T>(mask, [](Vector<T> a, Vector<T> b) { return a | b; }) != 0;
#endif
}

/// Σ a b.
template <class T>
inline T dot(const T* a, const T* b, int64_t count) {
  Vector<T> lanes{};
  int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) lanes += load(a + i) * load(b + i);
  T sum = sum_of_lanes<T>(lanes);
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// e^x, relative error below 1e-7. x = n ln 2 + r with |r| ≤ ln 2 / 2; e^r by a polynomial fitted for least relative error
/// (3e-9); n goes into the exponent. Results below the smallest normal number are 0; NaN stays NaN.
inline Vector<float> exp(Vector<float> x) {
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  const Vector<float> shifted = x * 1.44269504f + kRound;
  const Vector<float> n = shifted - kRound;
  const Vector<float> r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  Vector<float> e = r * 0x1.6a2352p-10f + 0x1.123a6cp-7f;
  e = e * r + 0x1.5558f4p-5f;
  e = e * r + 0x1.555490p-3f;
  e = e * r + 0x1.fffffcp-2f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  Vector<int32_t> exponent, bits;
  std::memcpy(&exponent, &shifted, sizeof x);
  std::memcpy(&bits, &e, sizeof x);
  bits += exponent << 23;
  std::memcpy(&e, &bits, sizeof x);
  e = x < -87.33f ? Vector<float>{} : e;
  return x <= 88.72f ? e : x * std::numeric_limits<float>::infinity();
}
inline Vector<double> exp(Vector<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = std::exp(x[i]);
  return x;
}

}  // namespace megatoken::cpu
