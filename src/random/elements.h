// How the distributions store a number in any dtype, and how they draw words in tiles.
// Private to this folder.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/convert_element.h"
#include "random/generator.h"
#include "tensor/dtype.h"

namespace adjoint::random {

// The value of a floating element in the type arithmetic on it happens in.
inline float widen(half_t value) { return ADJOINT_ISA_TAG::half_to_float(value); }
inline float widen(bfloat16_t value) { return ADJOINT_ISA_TAG::bfloat16_to_float(value); }
inline float widen(float value) { return value; }
inline double widen(double value) { return value; }

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, half_t> || std::is_same_v<T, bfloat16_t>;

// The type arithmetic on T happens in.
template <class T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

// Bits of precision, 2^digits being the last integer up to which all are exact.
template <class T>
inline constexpr int kDigits = std::is_same_v<T, half_t>       ? 11
                               : std::is_same_v<T, bfloat16_t> ? 8
                                                               : std::numeric_limits<T>::digits;

// A double outside the range gives the lowest integer, which is what x86 does and C++ leaves open.
template <class Int>
Int truncate(double value) {
  constexpr double limit = -static_cast<double>(std::numeric_limits<Int>::lowest());
  return value >= -limit && value < limit ? static_cast<Int>(value)
                                          : std::numeric_limits<Int>::lowest();
}

template <class T, class From>
T cast(From value) {
  if constexpr (std::is_same_v<T, half_t>) {
    return ADJOINT_ISA_TAG::float_to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bfloat16_t>) {
    return ADJOINT_ISA_TAG::float_to_bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != From{0};
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>) {
    // Narrow integers go through 32 bits and wrap, uint8 too (unlike in a conversion of dtypes:
    // PyTorch's compiler chose differently there).
    if constexpr (sizeof(T) < 8) return static_cast<T>(truncate<int32_t>(value));
    return static_cast<T>(truncate<int64_t>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
struct Type {
  using type = T;
};

// Call f(Type<T>{}) with the C++ type of a floating dtype; false if it is another dtype.
template <class F>
bool visit_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Float16:
      f(Type<half_t>{});
      return true;
    case DType::BFloat16:
      f(Type<bfloat16_t>{});
      return true;
    case DType::Float32:
      f(Type<float>{});
      return true;
    case DType::Float64:
      f(Type<double>{});
      return true;
    default:
      return false;
  }
}

// The same for every dtype that is not complex.
template <class F>
bool visit_real(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Bool:
      f(Type<bool>{});
      return true;
    case DType::UInt8:
      f(Type<uint8_t>{});
      return true;
    case DType::Int8:
      f(Type<int8_t>{});
      return true;
    case DType::Int16:
      f(Type<int16_t>{});
      return true;
    case DType::Int32:
      f(Type<int32_t>{});
      return true;
    case DType::Int64:
      f(Type<int64_t>{});
      return true;
    default:
      return visit_floating(dtype, f);
  }
}

// Words are drawn this many at a time: 16 KB at most, which stays in the first cache, and a
// multiple of the normals' blocks of 16.
inline constexpr int64_t kTile = 2048;

// Call f(words, start, count) for consecutive tiles of n draws of a word of 32 or 64 bits.
template <class Word, class F>
void draw(Generator& g, int64_t n, F&& f) {
  uint32_t halves[kTile * sizeof(Word) / 4];
  for (int64_t start = 0; start < n; start += kTile) {
    const int64_t count = std::min(kTile, n - start);
    if constexpr (sizeof(Word) == 4) {
      g.fill(halves, count);
      f(halves, start, count);
    } else {
      g.fill(halves, 2 * count);
      uint64_t words[kTile];
      for (int64_t i = 0; i < count; ++i) {
        words[i] = uint64_t{halves[2 * i]} << 32 | halves[2 * i + 1];
      }
      f(words, start, count);
    }
  }
}

// Uniform in [0, 1): 24 bits of a 32-bit word, or 53 bits of a 64-bit word.
inline float unit(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word & 0xffffffu)) * 0x1p-24f;
}
inline double unit(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>(word & ((1ull << 53) - 1))) * 0x1p-53;
}

// The word a uniform of type T (float or double) is made of.
template <class T>
using WordOf = std::conditional_t<std::is_same_v<T, double>, uint64_t, uint32_t>;

// One normal from the pair-wise Box-Muller, or the second of the last pair. In distributions.cpp.
double next_normal(Generator& g);

}  // namespace adjoint::random
