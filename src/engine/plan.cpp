// Read plan.h first.
#include "engine/plan.h"

#include <algorithm>

#include "graph/hidden_reads.h"

namespace adjoint {
namespace {

// Below a node are those its edges lead to, and what it has to account for: a custom function is
// executed, too, if its forward read an input in secret, so that it can say so.
const ForwardReads* hidden_reads(const Node* n) { return g_accountable ? hidden_of(n) : nullptr; }
int below_count(const Node* n) {
  const ForwardReads* hidden = hidden_reads(n);
  return n->edge_count + (hidden ? static_cast<int>(hidden->reads().size()) : 0);
}
Node* below(const Node* n, int i) {
  return i < n->edge_count ? n->edges[i].node
                           : node_of(hidden_reads(n)->reads()[i - n->edge_count]);
}

// Depth first, without recursion: enter(node) says whether to go into it, leave(node) comes after
// all nodes below it.
template <class Enter, class Leave>
void walk(std::span<const Root> roots, Enter&& enter, Leave&& leave) {
  std::vector<std::pair<Node*, int>> stack;
  for (const Root& r : roots) {
    if (r.edge.node && enter(r.edge.node)) stack.push_back({r.edge.node, 0});
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < below_count(node)) {
        Node* child = below(node, next++);
        if (child && enter(child)) stack.push_back({child, 0});
        continue;
      }
      leave(node);
      stack.pop_back();
    }
  }
}

}  // namespace

std::vector<Node*> reachable(std::span<const Root> roots) {
  std::vector<Node*> order;
  NodeTable<char> seen;
  walk(roots, [&](Node* n) { return seen.insert(n).second; }, [&](Node* n) { order.push_back(n); });
  return order;
}

void Plan::make(std::span<const Root> roots, const BackwardOptions& options) {
  // A node older than every input leads to none of them (Note [Order of nodes]).
  uint64_t oldest = UINT64_MAX;
  next_capture_.resize(options.inputs.size());
  NodeTable<char> seen;
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    Node* n = options.inputs[i].node;
    oldest = std::min(oldest, n->sequence);
    Part& part = parts_[n];
    if (options.accumulate) part.execute = true;
    next_capture_[i] = std::exchange(part.first_capture, static_cast<int>(i));
  }
  if (g_accountable) oldest = 0;  // what a function read in secret may be younger than it
  auto leads_on = [&](const Node* n) {
    for (int i = 0, count = below_count(n); i < count; ++i) {
      Node* next = below(n, i);
      if (next && find(next)) return true;
    }
    return false;
  };
  auto enter = [&](Node* n) {
    if (n->sequence < oldest || (options.end_at_inputs && find(n))) return false;
    return seen.insert(n).second;
  };
  auto await = [&](const Node* n) {
    if (n && !n->backward && find(n)) ++parts_[n].awaited;
  };
  walk(roots, enter, [&](Node* n) {
    if (!leads_on(n)) return;
    parts_[n].execute = true;
    for (int i = 0; i < n->edge_count; ++i) await(n->edges[i].node);
  });
  for (const Root& r : roots) await(r.edge.node);
}

}  // namespace adjoint
