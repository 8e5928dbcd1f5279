// Cuts: where a history ended.
//
// A result that gets no history although an operand had one (detach, .data, no_grad, integers, an
// op without a derivative) remembers why, on which line, and from which node. Uncaptured ops hand
// the memory on to their results, and a node that takes such a tensor as an operand keeps it: so
// a gradient that is None can be explained (python/adjoint/explain). The node is held weakly: a cut
// keeps no graph alive.
#pragma once
#include "python/source_line.h"
#include "tensor/value.h"

namespace adjoint {

enum class CutReason : uint8_t { Detach, Data, NoGrad, Inference, NotDifferentiable, NoDerivative };
const char* to_string(CutReason r);

struct Cut {
  uint32_t references = 1;
  CutReason reason;
  bool in_forward = false;   // in the forward of a custom function (intermediate.h)
  bool hidden = false;       // computed from what that forward was not given (hidden_reads.h)
  const char* op = nullptr;  // the name of the op, where one did it
  SourceLine line;
  PyObject* from = nullptr;  // a weak reference to the node that was cut off, or null
};

void retain(Cut* c) noexcept;
void release(Cut* c) noexcept;

// A counted pointer, for keepers other than tensors.
class CutRef {
 public:
  explicit CutRef(Cut* c) : c_(c) { retain(c); }
  CutRef(CutRef&& o) noexcept : c_(std::exchange(o.c_, nullptr)) {}
  CutRef& operator=(CutRef&& o) noexcept {
    std::swap(c_, o.c_);
    return *this;
  }
  ~CutRef() {
    if (c_) release(c_);
  }
  const Cut* operator->() const { return c_; }

 private:
  Cut* c_;
};

// `to` was made from `from`, which needs a gradient, without a history; or passes on from's cut.
void mark_cut(TensorObject* to, TensorObject* from, CutReason reason, const char* op);
void pass_cut(TensorObject* to, Cut* c);
// Sets what the cut of `t` says about the forward it was made in.
void set_forward_facts(TensorObject* t, bool in_forward, bool hidden);
void drop_cut(TensorObject* t) noexcept;

}  // namespace adjoint
