// A bool in memory. Bytes that were seen as bools (view, from outside, never written) may be neither
// 0 nor 1, and loading such a one as C++'s bool is undefined.
#pragma once
#include <cstdint>

namespace adjoint {

struct truth_t {
  uint8_t byte;
  explicit operator bool() const { return byte != 0; }
};

}  // namespace adjoint
