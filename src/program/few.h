// Few: a list that is mostly short, inline up to N items; and Lookup, a table of numbers by what they stand for.
//
// An instruction has a handful of operands and there are thousands of instructions: a list on the heap for each
// costs more than all that is done with it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint {

template <class T, uint32_t N>
class Few {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Few() = default;
  Few(std::initializer_list<T> items) {
    for (const T& x : items) push_back(x);
  }
  Few(const Few& o) { assign(o); }
  Few(Few&& o) noexcept { take(o); }
  Few& operator=(const Few& o) {
    if (this != &o) {
      size_ = 0;
      assign(o);
    }
    return *this;
  }
  Few& operator=(Few&& o) noexcept {
    if (this != &o) {
      free_heap();
      take(o);
    }
    return *this;
  }
  ~Few() { free_heap(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t k) { return data()[k]; }
  const T& operator[](size_t k) const { return data()[k]; }
  void clear() { size_ = 0; }

  void push_back(const T& item) {
    T x = item;  // which may be one of these
    if (size_ == capacity_) grow(2 * capacity_);
    data()[size_++] = x;
  }
  void push_front(const T& item) {
    push_back(item);
    std::rotate(begin(), end() - 1, end());
  }

 private:
  T* data() { return capacity_ > N ? heap_ : reinterpret_cast<T*>(inline_); }
  const T* data() const { return capacity_ > N ? heap_ : reinterpret_cast<const T*>(inline_); }
  void grow(uint32_t capacity) {
    T* larger = static_cast<T*>(::operator new(capacity * sizeof(T)));
    std::memcpy(static_cast<void*>(larger), data(), size_ * sizeof(T));
    free_heap();
    heap_ = larger;
    capacity_ = capacity;
  }
  void assign(const Few& o) {
    if (o.size_ > capacity_) grow(o.size_);
    std::memcpy(static_cast<void*>(data()), o.data(), o.size_ * sizeof(T));
    size_ = o.size_;
  }
  void take(Few& o) {
    std::memcpy(static_cast<void*>(inline_), o.inline_, sizeof inline_);
    size_ = std::exchange(o.size_, 0);
    capacity_ = std::exchange(o.capacity_, N);
  }
  void free_heap() {
    if (capacity_ > N) ::operator delete(heap_);
    capacity_ = N;
  }

  uint32_t size_ = 0, capacity_ = N;
  union {
    T* heap_;
    alignas(T) char inline_[N * sizeof(T) > sizeof(T*) ? N * sizeof(T) : sizeof(T*)];
  };
};

// Numbers from 0 on, found by the hash of what they stand for; who asks compares.
class Lookup {
 public:
  explicit Lookup(size_t expected = 0) {
    size_t slots = 16;
    while (slots < 2 * expected) slots *= 2;
    slots_.resize(slots);
  }
  // The first number with this hash for which `same` holds; or -1.
  template <class Same>
  int find(size_t hash, Same&& same) const {
    for (size_t at = place(hash);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& s = slots_[at];
      if (s.number < 0) return -1;
      if (s.hash == static_cast<uint32_t>(hash) && same(s.number)) return s.number;
    }
  }
  // The same in the place of a number with this hash that is `gone`, if there is one.
  template <class Gone>
  void add_in_place_of(size_t hash, int number, Gone&& gone) {
    for (size_t at = place(hash); slots_[at].number >= 0; at = (at + 1) & (slots_.size() - 1)) {
      Slot& s = slots_[at];
      if (s.hash != static_cast<uint32_t>(hash) || !gone(s.number)) continue;
      s.number = number;
      return;
    }
    add(hash, number);
  }
  void clear() {
    if (std::exchange(count_, 0)) std::fill(slots_.begin(), slots_.end(), Slot());
  }
  void add(size_t hash, int number) {
    if (2 * ++count_ > slots_.size()) grow();
    put({static_cast<uint32_t>(hash), number});
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    int number = -1;
  };
  size_t place(size_t hash) const { return static_cast<uint32_t>(hash) & (slots_.size() - 1); }
  void put(Slot s) {
    size_t at = place(s.hash);
    while (slots_[at].number >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = s;
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    std::swap(old, slots_);
    for (const Slot& s : old) {
      if (s.number >= 0) put(s);
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

// Puts one more word into a hash.
inline size_t mix(size_t hash, size_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 32;
}

}  // namespace adjoint
