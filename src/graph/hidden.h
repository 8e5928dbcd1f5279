// Hidden reads: tensors that require grad which the forward of a custom function computes with
// although they are none of its inputs (a closure's, a module's, a global one).
//
// Forward runs without recording, so the gradient of such a tensor is lost, unless backward runs a
// pass of its own through it, as reentrant checkpoints do. So nothing is refused while forward
// runs: its reads are noted here, where unrecorded ops note their cuts, and backward is held to
// account for them (../bindings/function_hidden.cpp). Ops that record, or whose operands need no
// gradient, never come here.
//
// A read that no output was computed from (a statistic for a log, an assertion) loses nothing. The
// cuts of results say whether they depend on one (Cut::hidden). Where that cannot be followed (a
// change in place, which other views share; batches), every output is taken to.
#pragma once
#include <vector>

#include "node.h"

namespace adjoint {

struct HiddenRead {
  PyObject* node;    // a weak reference to the node that would have got the gradient
  uint32_t slot;     // which of its outputs
  Tensor tensor;     // held while forward runs, so that it can be found in the arguments
  const char* op;    // the first op that read it
  SourceLine line;   // where
  std::string what;  // what messages call it: its path in the arguments, dtype and shape
};

// What the forward of `function` read; the innermost one of a thread that is to be recorded.
class ForwardReads {
 public:
  explicit ForwardReads(const Node* function) : function_(function) {}
  ~ForwardReads();
  ForwardReads(const ForwardReads&) = delete;

  // Whether `t` is such a tensor; what forward was given, or made itself, is not.
  bool note(TensorObject* t, const char* op);
  // Writes of dependent values were seen that cuts do not follow.
  void lose_track() { everywhere_ = true; }
  // Whether an output of forward depends on a read.
  bool reach(const TensorObject* output, bool is_input) const;
  bool empty() const { return reads_.empty(); }
  std::vector<HiddenRead>& reads() { return reads_; }
  void forget();

 private:
  const Node* function_;
  std::vector<HiddenRead> reads_;
  bool everywhere_ = false;
};

extern thread_local ForwardReads* t_forward_reads;

}  // namespace adjoint
