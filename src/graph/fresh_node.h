// Making a node, inlined where nanoseconds count: included by node.cpp and dispatch/direct.cpp alone.
// Everybody else calls new_node (node.h).
#pragma once
#include "graph/node.h"
#include "python/gc_list.h"

namespace adjoint {

// Nodes that were taken apart: their owning fields are empty, so that the next life sets the others
// alone. Guarded by the GIL.
struct FreeNodes {
  static constexpr int kRoom = 4096;
  Node* items[kRoom];
  int count;
};
extern __attribute__((visibility("hidden"))) FreeNodes free_nodes;

Node* allocate_node();  // from Python, zeroed; throws PythonError when memory is out

// `op` may be null. With counts the compiler knows no room is looked for.
[[gnu::always_inline]] inline Node* fresh_node(const Op* op, const char* name, BackwardFn backward,
                                               int edges, int saved) {
  Node* n;
  if (free_nodes.count) [[likely]] {
    n = free_nodes.items[--free_nodes.count];
    Py_SET_REFCNT(reinterpret_cast<PyObject*>(n), 1);
  } else {
    n = allocate_node();
  }
  n->op = op;
  n->name = name;
  n->backward = backward;
  n->edge_count = static_cast<uint16_t>(edges);
  n->saved_count = static_cast<uint16_t>(saved);
  n->output_count = 1;
  n->released = n->owns_variable = false;
  n->edges = n->inline_edges;
  n->saved = n->inline_saved;
  if (edges > kInlineEdges) [[unlikely]]
    n->edges = new Edge[edges];
  if (saved > kInlineSaved) [[unlikely]]
    n->saved = new Saved[saved];
  SourceLine::capture(&n->line);
  gc::track(n);
  return n;
}

}  // namespace adjoint
