// Read plan.h first.
#include "plan.h"

#include <algorithm>
#include <unordered_set>

namespace adjoint {

// Depth first, without recursion.
std::vector<Node*> reachable(std::span<const Root> roots, uint64_t oldest) {
  std::vector<Node*> order;
  std::unordered_set<Node*> seen;
  std::vector<std::pair<Node*, int>> stack;
  auto enter = [&](Node* n) {
    if (n && n->sequence >= oldest && seen.insert(n).second) stack.push_back({n, 0});
  };
  for (const Root& r : roots) {
    enter(r.edge.node);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->edge_count) {
        enter(node->edges[next++].node);
        continue;
      }
      order.push_back(node);
      stack.pop_back();
    }
  }
  return order;
}

void Plan::make(std::span<const Root> roots, const BackwardOptions& options) {
  // A node older than every input leads to none of them (Note [Order of nodes]).
  uint64_t oldest = UINT64_MAX;
  next_capture_.resize(options.inputs.size());
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    Node* n = options.inputs[i].node;
    oldest = std::min(oldest, n->sequence);
    Part& part = parts_[n];
    if (options.accumulate) part.execute = true;
    next_capture_[i] = std::exchange(part.first_capture, static_cast<int>(i));
  }
  for (Node* n : reachable(roots, oldest)) {
    for (int i = 0; i < n->edge_count; ++i) {
      if (!n->edges[i].node || !find(n->edges[i].node)) continue;
      parts_[n].execute = true;
      break;
    }
  }
}

}  // namespace adjoint
