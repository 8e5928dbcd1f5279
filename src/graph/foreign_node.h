// Nodes whose memory and class come from Python: the `ctx` of custom functions. The bindings make
// them (src/bindings/function/function_node.cpp); this is what the graph needs to know. Read node.h first.
#pragma once
#include "graph/node.h"

namespace adjoint {

// Makes zeroed memory a node: number, line and room for the edges. Not yet seen by the collector.
void init_foreign_node(Node* n, const char* name, BackwardFn backward, int edges);
// Room for saved values, asked for once.
void make_room_for_saved(Node* n, int saved);

// The backward of custom functions, by which their nodes are known; set by the bindings.
extern BackwardFn function_backward;
// Frees the memory of such a node, after all that a plain node has was taken away.
extern void (*free_function_node)(Node* n) noexcept;
inline bool is_function_node(const Node* n) { return n->backward == function_backward; }

}  // namespace adjoint
