// Making a node, inlined where nanoseconds count: included by node.cpp and dispatch/direct.cpp alone.
// Everybody else calls new_node (node.h).
#pragma once
#include "graph/node.h"
#include "python/gc_list.h"
#include "tensor/object_pool.h"

namespace adjoint {

// Nodes that were taken apart wait in a pool: their owning fields are empty, so that the next life
// sets the others alone.
extern __attribute__((visibility("hidden"))) ObjectPool node_pool;

// `op` may be null. With counts the compiler knows no room is looked for.
[[gnu::always_inline]] inline Node* fresh_node(const Op* op, const char* name, BackwardFn backward,
                                               int edges, int saved) {
  auto* n = reinterpret_cast<Node*>(node_pool.take(node_type));
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(n), 1);
  n->op = op;
  n->name = name;
  n->backward = backward;
  n->edge_count = edges;
  n->saved_count = saved;
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
