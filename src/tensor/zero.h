// Zeroing a header of known size. The compiler's choice for a few hundred bytes is `rep stos`,
// whose start alone costs as much as the rest of a small op.
#pragma once
#include <cstddef>
#include <cstring>
#include <utility>

namespace adjoint {

// Clears N bytes (a multiple of 8) by plain 16-byte stores.
template <size_t N>
inline void zero_bytes(void* p) {
  static_assert(N % 8 == 0);
  static constexpr char zeros[16] = {};
  char* at = static_cast<char*>(p);
  [&]<size_t... I>(std::index_sequence<I...>) {
    (std::memcpy(at + 16 * I, zeros, 16), ...);
  }(std::make_index_sequence<N / 16>());
  if constexpr (N % 16) std::memcpy(at + N - 8, zeros, 8);
}

// Copies N bytes (a multiple of 16) the same way.
template <size_t N>
inline void copy_bytes(void* to, const void* from) {
  static_assert(N % 16 == 0);
  [&]<size_t... I>(std::index_sequence<I...>) {
    (std::memcpy(static_cast<char*>(to) + 16 * I, static_cast<const char*>(from) + 16 * I, 16),
     ...);
  }(std::make_index_sequence<N / 16>());
}

}  // namespace adjoint
