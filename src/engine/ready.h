// Nodes that hold gradients and wait for their turn: newest first, since only nodes made later send
// gradients to a node (Note [Order of nodes] in ../graph/node.h).
//
// Nodes mostly become ready in one of two orders, which need no heap: a chain, whose next node is
// newer than all that wait (a stack), and many chains side by side, whose next nodes are older than
// all that wait (a queue). The heap takes what fits neither.
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
    if (more_) return pop_newest();
    return std::exchange(next_, nullptr);
  }

 private:
  [[gnu::noinline]] void push_second(Node* n) {
    more_ = true;
    if (older(next_, n)) {
      stack_.push_back(std::exchange(next_, n));
    } else if (head_ == queue_.size() || older(n, queue_.back())) {
      queue_.push_back(n);
    } else {
      heap_.push_back(n);
      std::push_heap(heap_.begin(), heap_.end(), older);
    }
  }

  [[gnu::noinline]] Node* pop_newest() {
    Node* in_queue = head_ < queue_.size() ? queue_[head_] : nullptr;
    Node* in_heap = heap_.empty() ? nullptr : heap_.front();
    Node* n = next_;
    if (in_queue && (!n || older(n, in_queue))) n = in_queue;
    if (in_heap && (!n || older(n, in_heap))) n = in_heap;
    if (n == next_) {
      next_ = nullptr;
      if (!stack_.empty()) {
        next_ = stack_.back();
        stack_.pop_back();
      }
    } else if (n == in_queue) {
      if (++head_ == queue_.size()) {
        queue_.clear();
        head_ = 0;
      }
    } else {
      std::pop_heap(heap_.begin(), heap_.end(), older);
      heap_.pop_back();
    }
    more_ = !(stack_.empty() && queue_.empty() && heap_.empty());
    return n;
  }

  Node* next_ = nullptr;      // the newest of the stack; null only when the stack is empty
  bool more_ = false;         // there is something beside next_
  std::vector<Node*> stack_;  // oldest first
  std::vector<Node*> queue_;  // newest first, from head_ on
  size_t head_ = 0;
  std::vector<Node*> heap_;
};

}  // namespace adjoint
