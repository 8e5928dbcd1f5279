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
// Read next: ../ops/record.cpp (how nodes are made), ../engine/engine.cpp (how they are run).
#pragma once
#include <vector>

#include "../tensor/source_line.h"
#include "../tensor/value.h"

namespace adjoint {

struct Op;
struct Node;
class Run;

struct Edge {
  Node* node = nullptr;
  uint32_t slot = 0;
};

struct Saved {
  Value value;
  uint32_t version = 0;
};

// Shape and dtype of an output: what a gradient that arrives must look like.
struct Meta {
  Dims shape;
  DType dtype = DType::Float32;
};

// What few nodes have.
struct NodeExtra {
  // Hooks of tensors that are outputs of this node: (slot, dict id -> callable).
  std::vector<std::pair<uint32_t, PyObject*>> tensor_hooks;
  // Outputs whose gradient is to be kept: (slot, weak reference to the tensor).
  std::vector<std::pair<uint32_t, PyObject*>> retains;
  PyObject* pre_hooks = nullptr;   // dict id -> callable(grad_outputs)
  PyObject* post_hooks = nullptr;  // dict id -> callable(grad_inputs, grad_outputs)
};

// grads: one per output, undefined where nothing arrived. result: one per edge, to be filled in.
using BackwardFn = void (*)(Node* node, Tensor* grads, Tensor* result);

struct Node {
  PyObject_HEAD PyObject* dict;
  PyObject* weakrefs;
  uint64_t sequence;
  const Op* op;         // null for nodes that no op made
  const char* name;     // "MulBackward0"
  BackwardFn backward;  // null for AccumulateGrad
  uint16_t edge_count, saved_count, output_count;
  bool released;           // saved values were freed by a backward pass
  Edge* edges;             // their nodes are owned
  Saved* saved;            // one per argument of the op
  TensorObject* variable;  // AccumulateGrad: the leaf, owned
  Run* run;                // the backward pass that holds `pending`, if one is under way
  NodeExtra* extra;        // owned
  // From here on C++ objects, constructed by new_node and destroyed by destroy_node.
  SourceLine line;
  SourceLine freed_by;          // the backward call that released the saved values
  Tensor pending;               // the gradient gathered so far for the first output
  Tensors more_pending;         // and for the others
  Saved output;                 // a saved output: an alias without history, or a list of them
  Value kept;                   // what forward left for backward besides inputs and outputs
  Meta meta;                    // of the first output
  std::vector<Meta> more_meta;  // of the others
  Edge inline_edges[2];
  Saved inline_saved[2];

  const Meta& meta_of(uint32_t slot) const { return slot == 0 ? meta : more_meta[slot - 1]; }
  Tensor& pending_of(uint32_t slot) { return slot == 0 ? pending : more_pending[slot - 1]; }
  void set_output_count(int n) {
    output_count = static_cast<uint16_t>(n);
    if (n > 1) {
      more_meta.resize(n - 1);
      more_pending.resize(n - 1);
    }
  }
};

extern PyTypeObject* node_type;  // set by the bindings

// A node with room for so many edges and saved arguments; throws PythonError when memory is out.
Node* new_node(const char* name, BackwardFn backward, int edges, int saved);
int traverse_node(Node* n, visitproc visit, void* arg);
void clear_node(Node* n) noexcept;    // drops what can be part of a cycle
void destroy_node(Node* n) noexcept;  // the type's dealloc: never recurses, however long the chain
// Frees the saved values after a backward pass without retain_graph.
void release_saved(Node* n) noexcept;
NodeExtra& extra_of(Node* n);

// Whether ops record, in this thread.
bool grad_enabled();
void set_grad_enabled(bool on);
struct GradMode {
  explicit GradMode(bool on) : before_(grad_enabled()) { set_grad_enabled(on); }
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};

// A view whose base was changed in place since its history was written.
inline bool stale_view(const TensorObject* t) {
  return t->base && t->view_version != t->storage->version && (t->base->flags & kRequiresGrad);
}
inline bool needs_grad(const TensorObject* t) {
  return (t->flags & kRequiresGrad) || stale_view(t);
}

// The edge that gradients for `t` travel along, made if need be; a null node when t needs none. The
// caller owns a reference to the node.
Edge gradient_edge(TensorObject* t);
// The node that adds into `t.grad`: a new reference. The tensor itself holds it weakly.
Node* accumulator_of(TensorObject* t);
// Makes `t` output `slot` of `n`.
void set_history(const Tensor& t, Node* n, uint32_t slot);
void set_meta(Node* n, uint32_t slot, const Tensor& t);
Saved save(const Value& v);

}  // namespace adjoint
