// Read freed.h first.
#include "freed.h"

#include "run.h"

namespace adjoint {
namespace {

std::string result_of(const Node* n, uint32_t slot) {
  const Meta& m = n->meta_of(slot);
  return text(m.dtype, " ", m.shape());
}

// Two stories: backward was called twice on one tensor, or a tensor of a finished computation was
// used in the next one. A root remembers the pass that started at it (note_freed).
std::string outlived(const Node* n) {
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

}  // namespace

void note_freed(std::span<const Root> roots, const SourceLine& line) {
  for (const Root& r : roots) {
    if (r.edge.node && r.edge.node->backward) r.edge.node->freed_by = line;
  }
}

void fail_freed(const Node* n, const char* how) {
  runtime_error(
      "Trying to backward through the graph a second time (or directly access saved tensors after "
      "they have already been freed). Saved intermediate values of the graph are freed when you "
      "call .backward() or autograd.grad().\n  the node      ",
      n->name, " (", result_of(n, 0), ") made at ", n->line.describe(), "\n  freed here    ",
      how ? how : n->freed_by.describe(), outlived(n),
      "\n  fix: Specify retain_graph=True there if you need to backward through the graph a second "
      "time");
}

}  // namespace adjoint
