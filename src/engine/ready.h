// Nodes that hold gradients and wait for their turn: newest first, since only nodes made later send
// gradients to a node (Note [Order of nodes] in ../graph/node.h).
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "../graph/node.h"

namespace adjoint {

inline bool older(const Node* a, const Node* b) { return a->sequence < b->sequence; }

class Ready {
 public:
  // Takes over a reference.
  void push(Node* n) {
    if (!next_) {
      next_ = n;
      return;
    }
    if (older(next_, n)) std::swap(next_, n);
    heap_.push_back(n);
    std::push_heap(heap_.begin(), heap_.end(), older);
  }
  // Hands the reference to the caller; null when none is left.
  Node* pop() {
    if (heap_.empty() || (next_ && older(heap_.front(), next_)))
      return std::exchange(next_, nullptr);
    std::pop_heap(heap_.begin(), heap_.end(), older);
    Node* n = heap_.back();
    heap_.pop_back();
    return n;
  }

 private:
  // The chain y = f(y) has one node ready at a time: it never touches the heap.
  Node* next_ = nullptr;
  std::vector<Node*> heap_;
};

}  // namespace adjoint
