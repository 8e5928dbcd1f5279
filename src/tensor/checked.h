// Arithmetic of sizes, strides and offsets. A size that does not fit is an error where it is made:
// one that wrapped would pass every later check and lead outside memory.
#pragma once
#include <cstdint>

namespace adjoint {

// RuntimeError: a size or an offset, `a operation b`, exceeds 64 bits.
[[noreturn]] void size_overflow(int64_t a, char operation, int64_t b);

inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) [[unlikely]]
    size_overflow(a, '+', b);
  return sum;
}

inline int64_t checked_sub(int64_t a, int64_t b) {
  int64_t difference;
  if (__builtin_sub_overflow(a, b, &difference)) [[unlikely]]
    size_overflow(a, '-', b);
  return difference;
}

inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) [[unlikely]]
    size_overflow(a, '*', b);
  return product;
}

// How far index `i` of an axis lies from its start, added to `offset`.
inline int64_t checked_offset(int64_t offset, int64_t i, int64_t stride) {
  return checked_add(offset, checked_mul(i, stride));
}

// The stride of every `step`-th index. Where that overflows there is one index at most, and its
// stride says nothing.
inline int64_t stepped(int64_t stride, int64_t step) {
  int64_t product;
  return __builtin_mul_overflow(stride, step, &product) ? stride : product;
}

}  // namespace adjoint
