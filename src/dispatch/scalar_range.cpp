// The ranges of dtypes. Read scalar_range.h first.
#include "dispatch/scalar_range.h"

#include <cmath>
#include <limits>

namespace adjoint {
namespace {

bool fits_integer(int64_t v, DType d) {
  switch (d) {
    case DType::UInt8:
      return v >= -255 && v <= 255;
    case DType::UInt16:
      return v >= -UINT16_MAX && v <= UINT16_MAX;
    case DType::UInt32:
      return v >= -int64_t{UINT32_MAX} && v <= int64_t{UINT32_MAX};
    case DType::Int8:
      return v >= INT8_MIN && v <= INT8_MAX;
    case DType::Int16:
      return v >= INT16_MIN && v <= INT16_MAX;
    case DType::Int32:
      return v >= INT32_MIN && v <= INT32_MAX;
    default:
      return true;
  }
}

double largest(DType d) {
  if (d == DType::Float16) return 65504.0;
  if (d == DType::BFloat16) return 3.3895313892515355e38;
  if (real_dtype(d) == DType::Float32) return std::numeric_limits<float>::max();
  return std::numeric_limits<double>::max();
}

bool in_range(const Value& v, DType d) {
  if (d == DType::Bool) return true;
  if (v.kind() == Value::Complex && v.complex().imag() != 0 && !is_complex(d)) return false;
  if (is_integral(d)) {
    if (v.kind() == Value::Int || v.kind() == Value::Bool) return fits_integer(v.integer(), d);
    if (is_wide_unsigned(d)) {
      double beyond = std::ldexp(1.0, static_cast<int>(8 * item_size(d)));
      return v.real() >= 0 && v.real() <= beyond - 1 && v.real() < beyond;
    }
    return std::abs(v.real()) < 9.2233720368547758e18 && fits_integer(v.integer(), d);
  }
  return !std::isfinite(v.real()) || std::abs(v.real()) <= largest(d);
}

}  // namespace

void require_fits(const Value& number, DType dtype) {
  if (!number.is_scalar() || in_range(number, dtype)) return;
  if (number.kind() == Value::Int)
    runtime_error("value cannot be converted to type ", dtype,
                  " without overflow: ", number.integer());
  if (number.kind() != Value::Complex)
    runtime_error("value cannot be converted to type ", dtype,
                  " without overflow: ", number.real());
  runtime_error("value cannot be converted to type ", dtype,
                " without overflow: ", number.complex());
}

DType common_dtype(const Value* operands, int count) {
  ResultType type;
  for (int i = 0; i < count; ++i) type.add(operands[i]);
  return type.get();
}

}  // namespace adjoint
