// One element converted from one dtype to another, with PyTorch's results: floats become integers
// by truncation, complex numbers lose their imaginary part, anything nonzero is true, and 16-bit
// floats round to nearest even by way of float32. No conversion is undefined behaviour.
// Read next: isa/convert.cpp for the loops, convert.h for the interface.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/kernel.h"

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace adjoint::ADJOINT_ISA_TAG {

// Complex numbers in loops: std::complex would bring library functions that the linker could mix
// between instruction sets.
template <class T>
struct Pair {
  T re, im;
  explicit operator bool() const { return (re != 0) | (im != 0); }
};

template <class T>
inline constexpr bool is_pair = false;
template <class T>
inline constexpr bool is_pair<Pair<T>> = true;

// The four below give the same bits as the F16C instructions, NaN payloads included, and are
// written without branches so that loops over them vectorise.
inline float half_to_float(half_t h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(h.bits & 0x7fff) << 13;
  const uint32_t exponent = magnitude & 0x0f800000;
  const uint32_t normal = magnitude + 0x38000000;
  const uint32_t quiet = magnitude > 0x0f800000 ? 0x00400000 : 0;
  const uint32_t special = (magnitude + 0x70000000) | quiet;
  // A subnormal is an integer times 2^-24: put it under the bits of 2^-14 and subtract that.
  const float subnormal =
      std::bit_cast<float>(magnitude + 0x38800000) - std::bit_cast<float>(0x38800000u);
  const uint32_t bits = exponent == 0x0f800000 ? special
                        : exponent == 0        ? std::bit_cast<uint32_t>(subnormal)
                                               : normal;
  return std::bit_cast<float>(bits | sign);
}

inline half_t float_to_half(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  // Adding 0.5 leaves a multiple of 2^-24, the subnormals' unit, rounded to nearest even.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - 0x3f000000;
  const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13;
  const uint32_t half = magnitude > 0x7f800000    ? nan
                        : magnitude >= 0x477ff000 ? 0x7c00
                        : magnitude < 0x38800000  ? subnormal
                                                  : normal;
  return {static_cast<uint16_t>(half | sign)};
}

inline float bfloat16_to_float(bfloat16_t b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b.bits) << 16);
}

inline bfloat16_t float_to_bfloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const uint32_t nan = bits | 0x00400000;
  return {static_cast<uint16_t>((x != x ? nan : rounded) >> 16)};
}

// What x86 does with a float that does not fit: the most negative number of the width it converts
// in, of which a narrower integer takes the low bits.
template <class To, class From>
inline To truncate(From x) {
  if constexpr (std::is_same_v<To, uint32_t> || std::is_same_v<To, uint64_t>) {
    // The upper half of the range as the lower one, and its bit put back.
    using Signed = std::make_signed_t<To>;
    constexpr To top = To{1} << (8 * sizeof(To) - 1);
    constexpr From half = static_cast<From>(top);
    if (!(x >= half)) return static_cast<To>(truncate<Signed>(x));
    return static_cast<To>(truncate<Signed>(x - half)) ^ top;
  }
  constexpr bool by_int64 =
      sizeof(To) == 8 || (std::is_same_v<To, uint8_t> && std::is_same_v<From, double>);
  using Step = std::conditional_t<by_int64, int64_t, int32_t>;
#if defined(__x86_64__) && !defined(__AVX512DQ__)
  // No vectors here, so let the instruction itself answer for what does not fit.
  if constexpr (by_int64) return static_cast<To>(_mm_cvttsd_si64(_mm_set_sd(x)));
#endif
  constexpr From limit = static_cast<From>(by_int64 ? 0x1p63 : 0x1p31);
  const bool fits = (x >= -limit) & (x < limit);
  const Step step = fits ? static_cast<Step>(x) : std::numeric_limits<Step>::min();
  return static_cast<To>(step);
}

// Before AVX-512 no vector instruction converts int64, but the halves convert exactly and their sum
// rounds once, as the direct conversion does.
inline double int64_to_double(int64_t x) {
#ifdef __AVX512DQ__
  return static_cast<double>(x);
#else
  const double high = static_cast<int32_t>(x >> 32);
  const double low = std::bit_cast<double>(0x4330000000000000 | (x & 0xffffffff)) - 0x1p52;
  return high * 0x1p32 + low;
#endif
}

template <class To, class From>
inline To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, half_t>) {
    return convert<To>(half_to_float(x));
  } else if constexpr (std::is_same_v<From, bfloat16_t>) {
    return convert<To>(bfloat16_to_float(x));
  } else if constexpr (std::is_same_v<To, half_t>) {
    return float_to_half(convert<float>(x));
  } else if constexpr (std::is_same_v<To, bfloat16_t>) {
    return float_to_bfloat16(convert<float>(x));
  } else if constexpr (is_pair<To> && is_pair<From>) {
    return {static_cast<decltype(To::re)>(x.re), static_cast<decltype(To::re)>(x.im)};
  } else if constexpr (is_pair<To>) {
    return {static_cast<decltype(To::re)>(x), 0};
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<bool>(x);
  } else if constexpr (is_pair<From>) {
    return convert<To>(x.re);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return truncate<To>(x);
  } else if constexpr (std::is_same_v<From, int64_t> && std::is_same_v<To, double>) {
    return int64_to_double(x);
  } else if constexpr (std::is_same_v<From, bool>) {
    return x ? To(1) : To(0);  // a selection vectorises, a conversion of bool does not
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace adjoint::ADJOINT_ISA_TAG
