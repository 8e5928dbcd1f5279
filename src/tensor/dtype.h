// The element types, their sizes and their C++ types.
// Promotion between them is in promote.h.
#pragma once
#include <complex>
#include <cstdint>
#include <cstring>

namespace adjoint {

enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt16,
  UInt32,
  UInt64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Complex64,
  Complex128,
};
inline constexpr int kDTypes = 15;

// A 16-bit float is stored as bits; arithmetic happens in float32 (see kernels/convert.cpp).
struct half_t {
  uint16_t bits;
};
struct bfloat16_t {
  uint16_t bits;
};

using complex64_t = std::complex<float>;
using complex128_t = std::complex<double>;

inline constexpr uint8_t kItemSize[kDTypes] = {1, 1, 1, 2, 4, 8, 2, 4, 8, 2, 2, 4, 8, 8, 16};
inline constexpr const char* kDTypeName[kDTypes] = {
    "bool",   "uint8",   "int8",     "int16",   "int32",   "int64",     "uint16",    "uint32",
    "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};

inline size_t item_size(DType d) { return kItemSize[static_cast<int>(d)]; }
inline const char* name_of(DType d) { return kDTypeName[static_cast<int>(d)]; }
inline bool is_complex(DType d) { return d >= DType::Complex64; }
inline bool is_floating(DType d) { return d >= DType::Float16 && d <= DType::Float64; }
inline bool is_integral(DType d) { return d <= DType::UInt64; }  // bool included
// The dtypes that PyTorch stores, moves and converts but hardly computes with: see
// dispatch/wide_unsigned.h.
inline bool is_wide_unsigned(DType d) { return d >= DType::UInt16 && d <= DType::UInt64; }
// The signed dtype of the same size, whose bits mean the same where no order is asked for.
inline DType signed_dtype(DType d) {
  return is_wide_unsigned(d) ? static_cast<DType>(static_cast<int>(d) - 3) : d;
}
inline bool is_differentiable(DType d) { return d >= DType::Float16; }
inline bool is_half(DType d) { return d == DType::Float16 || d == DType::BFloat16; }

// The dtype that arithmetic on `d` is carried out in: 16-bit floats compute in float32.
inline DType compute_dtype(DType d) { return is_half(d) ? DType::Float32 : d; }

inline DType real_dtype(DType d) {
  return d == DType::Complex64 ? DType::Float32 : d == DType::Complex128 ? DType::Float64 : d;
}
inline DType complex_dtype(DType d) {
  return d == DType::Float64 || d == DType::Complex128 ? DType::Complex128 : DType::Complex64;
}

template <class T>
struct dtype_of;
#define ADJOINT_DTYPE(T, D)                  \
  template <>                                \
  struct dtype_of<T> {                       \
    static constexpr DType value = DType::D; \
  };
ADJOINT_DTYPE(bool, Bool)
ADJOINT_DTYPE(uint8_t, UInt8)
ADJOINT_DTYPE(int8_t, Int8)
ADJOINT_DTYPE(int16_t, Int16)
ADJOINT_DTYPE(int32_t, Int32)
ADJOINT_DTYPE(int64_t, Int64)
ADJOINT_DTYPE(uint16_t, UInt16)
ADJOINT_DTYPE(uint32_t, UInt32)
ADJOINT_DTYPE(uint64_t, UInt64)
ADJOINT_DTYPE(half_t, Float16)
ADJOINT_DTYPE(bfloat16_t, BFloat16)
ADJOINT_DTYPE(float, Float32)
ADJOINT_DTYPE(double, Float64)
ADJOINT_DTYPE(complex64_t, Complex64)
ADJOINT_DTYPE(complex128_t, Complex128)
#undef ADJOINT_DTYPE

}  // namespace adjoint
