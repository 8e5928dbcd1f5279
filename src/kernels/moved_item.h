// Elements that are only moved: their size matters, not what they are. A complex64 is two floats and
// may lie where an integer of its size may not.
#pragma once
#include <cstddef>
#include <cstdint>

namespace adjoint {

struct Moved8 {
  uint32_t half[2];
};
struct Moved16 {
  uint64_t half[2];
};

// Calls f with something that has the size of an element.
template <class F>
void by_item_size(size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(Moved8{});
    default:
      return f(Moved16{});
  }
}

}  // namespace adjoint
