// A table with a value per node: open addressing, nothing is ever taken out. A graph is walked with
// it before each pass that has `inputs`, so it must cost little per node.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace adjoint {

struct Node;

template <class T>
class NodeTable {
 public:
  const T* find(const Node* n) const {
    if (slots_.empty()) return nullptr;
    const Slot& s = slots_[place_of(n)];
    return s.node ? &s.value : nullptr;
  }
  T* find(const Node* n) { return const_cast<T*>(std::as_const(*this).find(n)); }
  // The value of `n`, which is new where there was none; valid until the next call.
  std::pair<T*, bool> insert(const Node* n) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& s = slots_[place_of(n)];
    bool fresh = !s.node;
    if (fresh) {
      s.node = n;
      ++count_;
    }
    return {&s.value, fresh};
  }
  T& operator[](const Node* n) { return *insert(n).first; }

 private:
  struct Slot {
    const Node* node = nullptr;
    T value{};
  };

  size_t place_of(const Node* n) const {
    size_t mask = slots_.size() - 1;
    // Fibonacci hashing: nodes lie at regular distances.
    size_t i = (reinterpret_cast<uintptr_t>(n) * UINT64_C(0x9E3779B97F4A7C15)) >> 20 & mask;
    while (slots_[i].node && slots_[i].node != n) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Slot> before(slots_.empty() ? 64 : 2 * slots_.size());
    before.swap(slots_);
    for (Slot& s : before) {
      if (s.node) slots_[place_of(s.node)] = s;
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace adjoint
