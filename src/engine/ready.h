// Nodes that hold gradients and wait for their turn: newest first, since only nodes made later send
// gradients to a node (Note [Order of nodes] in graph/node.h).
//
// Nodes mostly become ready in orders that need no heap. The next node of a chain is newer than all
// that wait: a stack. Chains side by side, as the fields of a state make them, send gradients to
// nodes that are older and older: a queue for each kind of node. The heap takes what fits nowhere.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "graph/node.h"

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
  // All of them, in no order.
  std::vector<Node*> all() const {
    std::vector<Node*> nodes(stack_);
    if (next_) nodes.push_back(next_);
    for (const Queue& q : queues_)
      nodes.insert(nodes.end(), q.nodes.begin() + static_cast<ptrdiff_t>(q.head), q.nodes.end());
    nodes.insert(nodes.end(), heap_.begin(), heap_.end());
    return nodes;
  }

 private:
  // Newest first, from head on.
  struct Queue {
    std::vector<Node*> nodes;
    size_t head = 0;

    Node* first() const { return head < nodes.size() ? nodes[head] : nullptr; }
    bool takes(const Node* n) const { return nodes.empty() || older(n, nodes.back()); }
    void drop_first() {
      if (++head < nodes.size()) return;
      nodes.clear();
      head = 0;
    }
  };

  [[gnu::noinline]] void push_second(Node* n) {
    ++more_;
    if (older(next_, n)) return stack_.push_back(std::exchange(next_, n));
    for (Queue& q : queues_) {
      if (q.takes(n)) return q.nodes.push_back(n);
    }
    heap_.push_back(n);
    std::push_heap(heap_.begin(), heap_.end(), older);
  }

  [[gnu::noinline]] Node* pop_newest() {
    Node* n = next_;
    Queue* from = nullptr;
    for (Queue& q : queues_) {
      Node* first = q.first();
      if (!first || (n && older(first, n))) continue;
      n = first;
      from = &q;
    }
    if (!heap_.empty() && (!n || older(n, heap_.front()))) {
      n = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), older);
      heap_.pop_back();
    } else if (from) {
      from->drop_first();
    } else {
      next_ = nullptr;
      if (stack_.empty()) return n;  // the others are as many as they were
      next_ = stack_.back();
      stack_.pop_back();
    }
    --more_;
    return n;
  }

  Node* next_ = nullptr;      // the newest of the stack; null only when the stack is empty
  size_t more_ = 0;           // how many there are beside next_
  std::vector<Node*> stack_;  // oldest first
  Queue queues_[3];
  std::vector<Node*> heap_;
};

}  // namespace adjoint
