// From a dtype to the C++ type of its elements.
#pragma once
#include <type_traits>

#include "tensor/dtype.h"
#include "tensor/error.h"

namespace adjoint {

// Calls f with a value of the C++ type of a real dtype, bool among them. Loops that move elements,
// and need uint16, uint32 or uint64, go by the size of an item instead.
template <class F>
decltype(auto) with_real_type(DType d, F&& f) {
  switch (d) {
    case DType::Bool:
      return f(bool{});
    case DType::UInt8:
      return f(uint8_t{});
    case DType::Int8:
      return f(int8_t{});
    case DType::Int16:
      return f(int16_t{});
    case DType::Int32:
      return f(int32_t{});
    case DType::Int64:
      return f(int64_t{});
    case DType::Float16:
      return f(half_t{});
    case DType::BFloat16:
      return f(bfloat16_t{});
    case DType::Float32:
      return f(float{});
    case DType::Float64:
      return f(double{});
    default:
      not_implemented("not implemented for dtype ", d);
  }
}

// The same for floats, complex ones among them.
template <class F>
decltype(auto) with_float_type(DType d, F&& f) {
  switch (d) {
    case DType::Float16:
      return f(half_t{});
    case DType::BFloat16:
      return f(bfloat16_t{});
    case DType::Float32:
      return f(float{});
    case DType::Complex64:
      return f(complex64_t{});
    case DType::Complex128:
      return f(complex128_t{});
    default:
      return f(double{});
  }
}

// The type that arithmetic on a real type is done in.
template <class T>
using ComputeType =
    std::conditional_t<std::is_same_v<T, half_t> || std::is_same_v<T, bfloat16_t>, float, T>;

}  // namespace adjoint
