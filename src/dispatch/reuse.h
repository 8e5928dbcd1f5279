// The memory of a gradient that nobody reads again.
//
// In a backward pass that is not recorded, the last rule of a node may write its result over the
// gradient that arrived, where the engine alone holds it: the block saves an allocation, and a
// large tensor stays in the cache. A rule whose op says `reads_grad_once()` uses `g` as an operand
// of one elementwise op; while such a rule runs, `t_reuse` is g, and that op takes its memory.
#pragma once
#include "graph/node.h"

namespace adjoint {

extern constinit thread_local TensorObject* t_reuse;
// Set by the engine before it runs a node whose gradients it does not look at afterwards.
extern constinit thread_local bool t_grads_unread;

// `t` is the operand that may be written over, with the geometry and dtype of the result.
inline bool take_for_reuse(const TensorObject* t) {
  if (!t || t != t_reuse) return false;
  t_reuse = nullptr;
  return true;
}

class Reuse {
 public:
  explicit Reuse(const Tensor& g) {
    if (g.unique() && g.contiguous()) t_reuse = g.get();
  }
  ~Reuse() { t_reuse = nullptr; }
  Reuse(const Reuse&) = delete;
};

}  // namespace adjoint
