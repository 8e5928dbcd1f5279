// Which nodes a pass with `inputs` runs, and where it takes gradients out.
//
// A node is executed when one of the inputs can be reached through it. The nodes of the inputs
// themselves are executed when gradients are accumulated, as PyTorch does; otherwise their gradient
// is captured, and they are executed only on the way to another input.
#pragma once
#include <vector>

#include "engine/engine.h"
#include "engine/node_table.h"

namespace adjoint {

class Plan {
 public:
  struct Part {
    bool execute = false;
    bool done = false;       // an accumulator that had its turn, before that of its age
    int awaited = 0;         // gradients that an accumulator is still to get
    int first_capture = -1;  // index into the inputs; more of them follow by next_capture
    bool wanted() const { return execute || first_capture >= 0; }
  };

  void make(std::span<const Root> roots, const BackwardOptions& options);
  // Null for nodes that no gradient needs to reach.
  const Part* find(const Node* n) const {
    const Part* part = parts_.find(n);
    return part && part->wanted() ? part : nullptr;
  }
  // A gradient, or nothing, went to `n`: whether it was the last one of an accumulator. As in
  // PyTorch those have their turn at once, whatever else is waiting: their hooks tell.
  bool completes(const Node* n) {
    Part* part = n->backward ? nullptr : parts_.find(n);
    return part && --part->awaited == 0;
  }
  // Whether a node that has waited for its turn had it already.
  bool is_done(const Node* n) const {
    const Part* part = parts_.find(n);
    return part && part->done;
  }
  void set_done(const Node* n) { parts_.find(n)->done = true; }
  int next_capture(int i) const { return next_capture_[i]; }

 private:
  NodeTable<Part> parts_;
  std::vector<int> next_capture_;
};

// Every node that can be reached from the roots; children before parents.
std::vector<Node*> reachable(std::span<const Root> roots);

}  // namespace adjoint
