// Which nodes a pass with `inputs` runs, and where it takes gradients out.
//
// A node is executed when one of the inputs can be reached through it. The nodes of the inputs
// themselves are executed when gradients are accumulated, as PyTorch does; otherwise their gradient
// is captured, and they are executed only on the way to another input.
#pragma once
#include <unordered_map>
#include <vector>

#include "engine.h"

namespace adjoint {

class Plan {
 public:
  struct Part {
    bool execute = false;
    int first_capture = -1;  // index into the inputs; more of them follow by next_capture
    bool wanted() const { return execute || first_capture >= 0; }
  };

  void make(std::span<const Root> roots, const BackwardOptions& options);
  // Null for nodes that no gradient needs to reach.
  const Part* find(Node* n) const {
    auto found = parts_.find(n);
    return found != parts_.end() && found->second.wanted() ? &found->second : nullptr;
  }
  int next_capture(int i) const { return next_capture_[i]; }

 private:
  std::unordered_map<Node*, Part> parts_;
  std::vector<int> next_capture_;
};

// Every node that can be reached from the roots, those not older than `oldest`; children before
// parents.
std::vector<Node*> reachable(std::span<const Root> roots, uint64_t oldest = 0);

}  // namespace adjoint
