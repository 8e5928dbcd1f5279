// Error nodes and the search for intermediates. Read intermediate.h first.
#include "graph/intermediate.h"

#include "python/weak.h"

namespace adjoint {

constinit thread_local Node* t_recorded_function = nullptr;
constinit thread_local bool t_in_function_forward = false;

namespace {

void raise_message(Node* n, Tensor*, Tensor*) { runtime_error(n->kept.str()); }

// In place of the op's own backward; the cuts say where the value came from.
void raise_for_operand(Node* n, Tensor*, Tensor*) {
  std::string made;
  for (auto& [argument, cut] : n->extra->cuts) {
    made += "\n  made here     " + cut->line.describe();
    if (cut->op) made += std::string("          (by `") + cut->op + "`, without recording)";
  }
  runtime_error(
      "a second derivative passes through a value that a custom Function's forward computed from "
      "its inputs and its backward used by a closure or a global: it has no history, so the "
      "derivative would be wrong.",
      made, "\n  used here     ", n->line.describe(),
      "\n  fix: save inputs or outputs with ctx.save_for_backward and compute the value from them "
      "in backward, or return it as an output of forward, or mark backward @once_differentiable");
}

}  // namespace

Node* new_error_node(const std::string& message, std::vector<Edge> edges) {
  Node* n = new_node("Error", raise_message, static_cast<int>(edges.size()), 0);
  std::copy(edges.begin(), edges.end(), n->edges);
  n->kept = Value(message);
  return n;
}

bool is_intermediate(const Node* n, const TensorObject* t) {
  if (!t->cut || !t->cut->in_forward || !t->cut->from) return false;
  if (needs_grad(t) || !is_differentiable(t->dtype)) return false;
  PyObject* from = referent(t->cut->from);
  for (int i = 0; i < n->edge_count; ++i) {
    if (n->edges[i].node && reinterpret_cast<PyObject*>(n->edges[i].node) == from) return true;
  }
  return false;
}

void watch_operand(Node* recorded, const TensorObject* operand) {
  if (is_intermediate(t_recorded_function, operand)) recorded->backward = raise_for_operand;
}

}  // namespace adjoint
