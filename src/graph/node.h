// The graph: one Node per recorded application of an op.
//
//   Node   knows its op, where gradients go next (edges), what backward needs (saved), what its
//          outputs look like (meta), and the user's line that made it
//   Edge   (node, slot): gradients for output `slot` of `node` are delivered there
//   Saved  a value kept for backward with the version its memory had
//
// A node is a CPython object so that the garbage collector sees cycles through the graph; nothing
// here depends on it otherwise. Note [Order of nodes]: `sequence` rises with creation, and a node
// is always created after the nodes its edges point to. So "newest first" is a topological order.
// Note [Leaves and their accumulators]: a leaf owns its AccumulateGrad node, which points back
// without owning, so that the pair is freed without the garbage collector and is made once, not
// once per graph. When the leaf's last holder goes while a graph still uses the node, the ownership
// is turned round: the node keeps the leaf (disown_accumulator), as hooks and `.variable` expect.
// Read next: dispatch/record_node.cpp (how nodes are made), engine/engine.cpp (how they are run).
#pragma once
#include <vector>

#include "graph/cut.h"
#include "python/gc_list.h"
#include "python/source_line.h"
#include "tensor/modes.h"
#include "tensor/value.h"

namespace adjoint {

struct Op;
struct Node;
class Run;

struct Edge {
  Node* node = nullptr;
  uint64_t slot = 0;  // as wide as a pointer: two registers, copied without masking
};

struct Saved {
  Value value;
  uint32_t version = 0;
};

// Shape and dtype of an output: what a gradient that arrives must look like. All zero bytes is a
// 0-d bool.
struct Meta {
  int64_t* heap;  // the shape, above six axes
  uint8_t ndim;
  DType dtype;
  int64_t inline_shape[kInlineDims];

  Span shape() const { return {heap ? heap : inline_shape, ndim}; }
  void set(Span shape, DType d) {
    clear();
    ndim = static_cast<uint8_t>(shape.n);
    dtype = d;
    if (shape.n > kInlineDims) heap = new int64_t[shape.n];
    std::copy_n(shape.p, shape.n, heap ? heap : inline_shape);
  }
  void clear() {
    if (heap) delete[] std::exchange(heap, nullptr);
  }
};

// What few nodes have.
struct NodeExtra {
  // Hooks of tensors that are outputs of this node: (slot, dict id -> callable).
  std::vector<std::pair<uint32_t, PyObject*>> tensor_hooks;
  // Outputs whose gradient is to be kept: (slot, weak reference to the tensor).
  std::vector<std::pair<uint32_t, PyObject*>> retains;
  PyObject* pre_hooks = nullptr;   // dict id -> callable(grad_outputs)
  PyObject* post_hooks = nullptr;  // dict id -> callable(grad_inputs, grad_outputs)
  // Arguments that came without a history because it was cut off, and where: for explanations.
  std::vector<std::pair<int, CutRef>> cuts;
  // The outputs after the first.
  std::vector<Meta> more_meta;
  Tensors more_pending;
  gc::BackLink back_link;
};

// grads: one per output, undefined where nothing arrived. result: one per edge, to be filled in.
using BackwardFn = void (*)(Node* node, Tensor* grads, Tensor* result);

inline constexpr int kInlineEdges = 2, kInlineSaved = 3;

// Everything after the object header is valid when zeroed, which is how a node starts.
struct Node {
  PyObject_HEAD PyObject* dict;
  PyObject* weakrefs;
  uint64_t sequence;
  const Op* op;         // null for nodes that no op made
  const char* name;     // "MulBackward0"
  BackwardFn backward;  // null for AccumulateGrad
  int edge_count, saved_count, output_count;
  bool released;           // saved values were freed by a backward pass
  bool owns_variable;      // see Note [Leaves and their accumulators]
  Edge* edges;             // their nodes are owned
  Saved* saved;            // one per argument of the op
  TensorObject* variable;  // AccumulateGrad: the leaf
  Run* run;                // the backward pass that holds `pending`, if one is under way
  NodeExtra* extra;        // owned
  SourceLine line;
  SourceLine freed_by;  // the backward call that released the saved values
  Tensor pending;       // the gradient gathered so far for the first output
  Saved output;         // a saved output: an alias without history, or a list of them
  Value kept;           // what forward left for backward besides inputs and outputs
  Edge inline_edges[kInlineEdges];
  Meta meta;  // of the first output
  Saved inline_saved[kInlineSaved];

  const Meta& meta_of(uint32_t slot) const { return slot == 0 ? meta : extra->more_meta[slot - 1]; }
  Tensor& pending_of(uint32_t slot) { return slot == 0 ? pending : extra->more_pending[slot - 1]; }
  void set_output_count(int n) {
    output_count = n;
    if (n < 2) return;
    if (!extra) extra = new NodeExtra;
    extra->more_meta.resize(n - 1, Meta{});
    extra->more_pending.resize(n - 1);
  }
};

extern PyTypeObject* node_type;  // set by the bindings

// A node with room for so many edges and saved arguments; throws PythonError when memory is out.
Node* new_node(const char* name, BackwardFn backward, int edges, int saved);
int traverse_node(Node* n, visitproc visit, void* arg);
void clear_node(Node* n) noexcept;    // drops what can be part of a cycle
void destroy_node(Node* n) noexcept;  // the type's dealloc: never recurses, however long the chain
// Frees the tensors saved for backward, after a pass without retain_graph. A node that kept none
// can run again.
void release_saved(Node* n) noexcept;
NodeExtra& extra_of(Node* n);
// The node gets a link that can close a cycle (Note [Objects aside] in python/gc_list.h).
inline void add_back_link(Node* n) { extra_of(n).back_link.set(); }

// Whether the elements of a view are those of its base, or their real and imaginary parts. Numbers
// read from the bytes of others have no derivative.
inline bool shows_elements(DType view, DType base) {
  if (view == base) return true;
  DType complex = is_complex(view) ? view : base;
  return is_complex(complex) && real_dtype(complex) == (is_complex(view) ? base : view);
}
// A view whose base was changed in place since its history was written.
inline bool stale_view(const TensorObject* t) {
  return t->base && t->view_version != t->storage->version && (t->base->flags & kRequiresGrad) &&
         shows_elements(t->dtype, t->base->dtype);
}
// Gives it the history that the change of its base has given it (dispatch/view.cpp).
void refresh_view_history(TensorObject* view);
inline bool needs_grad(const TensorObject* t) {
  return (t->flags & kRequiresGrad) || stale_view(t);
}

// The number of the newest node.
extern __attribute__((visibility("hidden"))) uint64_t last_sequence;

// The edge that gradients for `t` travel along, made if need be; a null node when t needs none. The
// caller owns a reference to the node.
Edge make_gradient_edge(TensorObject* t);
// Called when the last holder of `t` goes: true when the graph keeps it alive from here on.
bool disown_accumulator(TensorObject* t);
// Called when `t` is freed.
void drop_accumulator(TensorObject* t) noexcept;
inline Edge gradient_edge(TensorObject* t) {
  if (t->base || !(t->flags & kRequiresGrad)) [[unlikely]]
    return make_gradient_edge(t);
  if (!t->grad_fn) {
    Node* n = t->accumulator;
    if (!n) [[unlikely]]
      return make_gradient_edge(t);
    if (Py_REFCNT(n) == 1) n->sequence = ++last_sequence;  // see accumulator_of
    Py_INCREF(n);
    return {n, 0};
  }
  Py_INCREF(t->grad_fn);
  return {t->grad_fn, t->output_nr};
}
// The node that adds into `t.grad`: a new reference.
Node* accumulator_of(TensorObject* t);
// Makes `t` output `slot` of `n`.
inline void set_history(const Tensor& t, Node* n, uint32_t slot) {
  Py_INCREF(n);
  Py_XSETREF(t->grad_fn, n);
  t->output_nr = slot;
  t->flags |= kRequiresGrad;
  t->view_version = t->storage->version;
}
inline void set_meta(Node* n, uint32_t slot, const Tensor& t) {
  (slot == 0 ? n->meta : n->extra->more_meta[slot - 1]).set(t.shape(), t.dtype());
}
inline Saved save(const Value& v) {
  if (!v.is_tensor()) return {v, 0};
  Storage* s = v.object()->storage;
  if (v.object()->flags & kData) s->counts_data = true;
  return {v, s->version};
}

}  // namespace adjoint
