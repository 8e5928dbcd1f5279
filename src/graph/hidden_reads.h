// Hidden reads: tensors that require grad, or carry a tangent, which the forward of a custom
// function computes with although they are none of its inputs (a closure's, a module's, a global
// one).
//
// Forward runs without recording, so the gradient of such a tensor is lost, unless backward runs a
// pass of its own through it, as reentrant checkpoints do. So nothing is refused while forward
// runs: its reads are noted here, where unrecorded ops note their cuts, and backward is held to
// account for them (bindings/function/function_hidden_reads.cpp). Ops that record, or whose operands need no
// gradient, never come here. What forward records itself, under enable_grad, is judged where it
// leaves that graph: by a detach(), by an unrecorded op, as a result. A tangent that is lost is
// lost at once: the call is refused.
//
// A read that no output was computed from (a statistic for a log, an assertion) loses nothing. The
// cuts of results say whether they depend on one (Cut::hidden). Where that cannot be followed (a
// change in place, which other views share; batches; a result of NumPy's), every output is taken
// to.
//
// A computed tensor may be gone by the time of backward while the leaf behind it lives on, so its
// node is held, as an edge would hold it. A leaf that is gone has nobody to miss its gradient.
#pragma once
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/node.h"
#include "graph/transformed.h"
#include "python/weak.h"

namespace adjoint {

struct HiddenRead {
  PyObject* node;    // a weak reference to the node that would have got the gradient, or null
  Node* held;        // the same, owned, until a pass frees the graph; null for a leaf
  uint32_t slot;     // which of its outputs
  Tensor tensor;     // held while forward runs, so that it can be found in the arguments
  const char* op;    // the first op that read it
  SourceLine line;   // where
  std::string what;  // what messages call it: its path in the arguments, dtype and shape
};

// What the forward of `function` read; the innermost one of a thread that is to be recorded.
class ForwardReads {
 public:
  // With `recording`, gradients are looked out for; below the `limit`, tangents.
  ForwardReads(const Node* function, bool recording, Level limit)
      : function_(function), recording_(recording), limit_(limit) {}
  ~ForwardReads();
  ForwardReads(const ForwardReads&) = delete;

  // An unrecorded op reads `t`, which requires grad. Whether its result depends on something
  // hidden: what forward was given, or made itself, is not.
  bool note(TensorObject* t, const char* op);
  // The same for a detach(), which means what it says, except of what was recorded inside: that
  // cannot be returned without. A tensor to be `watched` may be on its way to NumPy.
  bool note_detached(TensorObject* t);
  // A leaf that forward makes for itself.
  void own(const TensorObject* t) { known().own.insert(t); }
  // A tensor in an object that forward was given.
  void watch(const TensorObject* t) { known().watched.insert(t); }
  // Writes of dependent values were seen that cuts do not follow.
  void lose_track() { everywhere_ = true; }
  // Whether an output of forward depends on a read.
  bool reach(const TensorObject* output, bool is_input) const;
  bool recording() const { return recording_; }
  bool empty() const { return reads_.empty(); }
  std::vector<HiddenRead>& reads() { return reads_; }
  const std::vector<HiddenRead>& reads() const { return reads_; }
  void forget();
  void release() noexcept;                     // lets go of the nodes that are held
  bool released() const { return released_; }  // there were such: what was read is not known now

  // Tangents: levels that forward does not see, whose values it got through its inputs only.
  Level limit() const { return limit_; }
  void give(const Storage* memory) { known().given.insert(memory); }
  void note_tangent(TensorObject* t, const char* op);
  std::vector<HiddenRead>& tangents() { return tangents_; }

  // The levels around a call inside that takes no part in them (bindings/autograd/apart.cpp).
  std::vector<OpenLevel>* aside = nullptr;

  // What messages say about all of them, from the function's own words.
  std::string cause, fix;

 private:
  struct Known {
    std::unordered_set<const TensorObject*> own, watched;
    std::unordered_set<const Storage*> given;
    // By its number, whether a node that forward recorded leads to something hidden.
    std::unordered_map<uint64_t, bool> inside;
  };
  // Few calls need one.
  Known& known() {
    if (!known_) known_ = std::make_unique<Known>();
    return *known_;
  }
  bool is_mine(const Edge& e) const;
  bool is_inside(const Node* n) const;
  bool add(const Edge& e, TensorObject* t, const char* op, const SourceLine& line);
  bool note_graph(Node* root);

  const Node* function_;
  bool recording_;
  Level limit_;
  std::vector<HiddenRead> reads_, tangents_;
  std::unique_ptr<Known> known_;
  bool everywhere_ = false;
  bool released_ = false;
};

extern thread_local ForwardReads* t_forward_reads;

inline void note_own_leaf(const TensorObject* t) {
  if (t_forward_reads) [[unlikely]]
    t_forward_reads->own(t);
}

// What a node in the graph has to account for, or null; the bindings know. No node has if the
// count of those that have is zero.
extern const ForwardReads* (*hidden_of)(const Node* n);
extern int64_t g_accountable;
// The node that would have got the gradient, if it is still there: borrowed.
inline Node* node_of(const HiddenRead& r) { return reinterpret_cast<Node*>(referent(r.node)); }

}  // namespace adjoint
