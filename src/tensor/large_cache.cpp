// Mapping large blocks and keeping idle ones; see large_cache.h. These calls cost a few hundred
// nanoseconds, against the tens of microseconds that writing the smallest large block takes.
#include "tensor/large_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>

namespace adjoint::memory::detail {

void* map_aligned(size_t size, [[maybe_unused]] bool huge) noexcept {
  const size_t padded = size + kHugePage;
  void* raw = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = round_to_huge(start);
  if (aligned > start) munmap(raw, aligned - start);
  if (const size_t tail = start + padded - (aligned + size))
    munmap(reinterpret_cast<void*>(aligned + size), tail);
#ifdef MADV_HUGEPAGE
  // A wish; failure is harmless.
  if (huge) madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
#endif
  return reinterpret_cast<void*>(aligned);
}

LargeCache& large_cache() noexcept {
  static LargeCache& instance = *new LargeCache;
  return instance;
}

void LargeCache::insert(uintptr_t address, Range range) {
  const auto it = ranges_.emplace(address, range).first;
  try {
    by_size_.emplace(range.size, address);
  } catch (...) {
    ranges_.erase(it);
    throw;
  }
  idle_ += range.size;
}

void LargeCache::erase(Ranges::iterator it) noexcept {
  idle_ -= it->second.size;
  by_size_.erase({it->second.size, it->first});
  ranges_.erase(it);
}

void* LargeCache::take(size_t size) {
  const auto best = by_size_.lower_bound({size, 0});
  if (best == by_size_.end()) return nullptr;
  const auto it = ranges_.find(best->second);
  const auto [address, range] = *it;
  // The rest first: if there is no memory for its entry, nothing has changed.
  if (range.size > size) insert(address + size, {range.size - size, range.age});
  erase(it);
  return reinterpret_cast<void*>(address);
}

size_t LargeCache::put(void* p, size_t size) noexcept {
  auto address = reinterpret_cast<uintptr_t>(p);
  // Neighbours are joined even if they were mapped apart: munmap takes any range.
  auto next = ranges_.lower_bound(address);
  if (next != ranges_.begin()) {
    if (const auto before = std::prev(next); before->first + before->second.size == address) {
      address = before->first;
      size += before->second.size;
      erase(before);
    }
  }
  if (next != ranges_.end() && next->first == address + size) {
    size += next->second.size;
    erase(next);
  }
  try {
    insert(address, {size, ++clock_});
    return 0;
  } catch (const std::bad_alloc&) {
    munmap(reinterpret_cast<void*>(address), size);
    return size;
  }
}

size_t LargeCache::evict(size_t wanted) noexcept {
  if (ranges_.empty()) return 0;
  const auto oldest = std::min_element(
      ranges_.begin(), ranges_.end(), [](auto& a, auto& b) { return a.second.age < b.second.age; });
  const uintptr_t address = oldest->first;
  const size_t size = oldest->second.size;
  const size_t kept = wanted < size ? size - round_to_huge(wanted) : 0;
  if (kept) {  // the entries are shortened in place, since an insertion could fail
    auto entry = by_size_.extract({size, address});
    entry.value().first = kept;
    by_size_.insert(std::move(entry));
    oldest->second.size = kept;
    idle_ -= size - kept;
  } else {
    erase(oldest);
  }
  munmap(reinterpret_cast<void*>(address + kept), size - kept);
  return size - kept;
}

}  // namespace adjoint::memory::detail
