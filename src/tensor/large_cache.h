// Idle large blocks of the allocator: ranges of whole huge pages, joined with their neighbours when
// they come back and cut when a smaller one is asked for. Used by allocator.cpp only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace adjoint::memory::detail {

inline constexpr size_t kHugePage = size_t{2} << 20;

// `bytes` must not exceed total_memory(), so that the sum cannot overflow.
inline size_t round_to_huge(size_t bytes) noexcept {
  return (bytes + kHugePage - 1) & ~(kHugePage - 1);
}

// `size` (whole huge pages) bytes of fresh zeroed memory, 2 MiB-aligned, or null. `huge`: it will be
// used up, so that large pages are wanted.
void* map_aligned(size_t size, bool huge = true) noexcept;

class LargeCache {
 public:
  // The smallest idle range that holds `size`, cut to it; null if there is none.
  void* take(size_t size);
  // Keeps [p, p + size) and returns 0; or, if there is no memory for the bookkeeping, gives it back
  // to the operating system with its idle neighbours and returns how many bytes went.
  size_t put(void* p, size_t size) noexcept;
  // Gives back `wanted` bytes, rounded up to huge pages, of the range that has been idle longest
  // (less if it is shorter); returns how many, 0 if nothing is idle.
  size_t evict(size_t wanted) noexcept;
  size_t idle() const noexcept { return idle_; }

 private:
  struct Range {
    size_t size;
    uint64_t age;  // a counter value; smaller is older
  };
  using Ranges = std::map<uintptr_t, Range>;  // by address

  void insert(uintptr_t address, Range range);
  void erase(Ranges::iterator it) noexcept;

  Ranges ranges_;
  std::set<std::pair<size_t, uintptr_t>> by_size_;
  size_t idle_ = 0;
  uint64_t clock_ = 0;
};

// Never destroyed: tensors may be freed after static destructors have run.
LargeCache& large_cache() noexcept;

}  // namespace adjoint::memory::detail
