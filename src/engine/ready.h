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
    if (next_) return push_second(n);
    next_ = n;
  }
  // Hands the reference to the caller; null when none is left.
  Node* pop() {
    if (!heap_.empty()) return pop_newest();
    return std::exchange(next_, nullptr);
  }

 private:
  [[gnu::noinline]] void push_second(Node* n) {
    if (older(next_, n)) std::swap(next_, n);
    heap_.push_back(n);
    std::push_heap(heap_.begin(), heap_.end(), older);
  }
  [[gnu::noinline]] Node* pop_newest() {
    if (next_ && older(heap_.front(), next_)) return std::exchange(next_, nullptr);
    std::pop_heap(heap_.begin(), heap_.end(), older);
    Node* n = heap_.back();
    heap_.pop_back();
    return n;
  }

  // The chain y = f(y) has one node ready at a time: it never touches the heap.
  Node* next_ = nullptr;
  std::vector<Node*> heap_;
};

}  // namespace adjoint
