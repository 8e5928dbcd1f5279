// The story behind the error of a second backward pass (graph/second_backward.h).
#include "engine/run.h"
#include "graph/second_backward.h"

namespace adjoint {

// Two stories: backward was called twice on one tensor, or a tensor of a finished computation was
// used in the next one. A root remembers the pass that started at it (note_freed).
std::string story_of_pass(const Node* n) {
  Run* run = Run::current();
  if (!run || run->roots().empty()) return "";
  const Edge& root = run->roots().front().edge;
  if (!root.node || !root.node->backward) return "";
  std::string asked =
      text("\n  asked again   for the gradient of the ", result_of(root.node, root.slot),
           " result of ", root.node->name, ", made at ", root.node->line.describe());
  if (root.node == n || run->root_was_freed()) {
    return asked +
           "\n  This result outlived the call that freed its graph: compute it anew for "
           "each backward pass.";
  }
  return text(asked, "\n  It was computed from the ", result_of(n, 0), " result of ", n->name,
              ", which outlived the call that freed its graph: if it is carried over from one step "
              "to the next, detach() it there.");
}

void note_freed(std::span<const Root> roots, const SourceLine& line) {
  for (const Root& r : roots) {
    if (r.edge.node && r.edge.node->backward) r.edge.node->freed_by = line;
  }
}

}  // namespace adjoint
