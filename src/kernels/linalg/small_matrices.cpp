// Which instruction set's loops are used. See small_matrices.h.
#include "kernels/linalg/small_matrices.h"

#include "kernels/kernel.h"

namespace adjoint {

// [0] for float32, [1] for float64.
#define ADJOINT_SMALL_LOOPS(isa)            \
  namespace isa {                           \
  extern const small::Loops kSmallLoops[2]; \
  }
ADJOINT_SMALL_LOOPS(Base)
#if defined(__x86_64__)
ADJOINT_SMALL_LOOPS(V3)
ADJOINT_SMALL_LOOPS(V4)
#endif
#undef ADJOINT_SMALL_LOOPS

namespace small {

const Loops& loops(DType dtype) {
  static const Loops* const chosen = [] {
#if defined(__x86_64__)
    if (active_isa() == Isa::V4) return V4::kSmallLoops;
    if (active_isa() == Isa::V3) return V3::kSmallLoops;
#endif
    return Base::kSmallLoops;
  }();
  return chosen[dtype == DType::Float64];
}

}  // namespace small
}  // namespace adjoint
