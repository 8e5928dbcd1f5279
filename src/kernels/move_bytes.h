// Copying memory as it lies.
#pragma once
#include <cstdint>
#include <cstring>

namespace adjoint {

// memmove. Where the target lies a little behind the source, modulo a page, the string instruction that
// the C library uses for some kilobytes takes twenty times as long as a loop: so it is when a tensor is
// rolled by one.
inline void move_bytes(char* to, const char* from, int64_t n) {
  constexpr int64_t kBlock = 64, kLeast = 2048, kMost = 1 << 16;
  auto behind = static_cast<size_t>(to - from) & 4095;
  bool apart = to + n <= from || from + n <= to;
  if (n < kLeast || n > kMost || behind == 0 || behind >= kBlock || !apart) {
    std::memmove(to, from, static_cast<size_t>(n));
    return;
  }
  int64_t k = 0;
  for (; k + kBlock <= n; k += kBlock) std::memcpy(to + k, from + k, kBlock);
  std::memcpy(to + k, from + k, static_cast<size_t>(n - k));
}

}  // namespace adjoint
