// Read object_pool.h first.
#include "tensor/object_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "python/error.h"
#include "python/gc_list.h"
#include "tensor/allocator.h"
#include "tensor/large_cache.h"

namespace adjoint {
namespace {

constexpr size_t kLine = 64;
constexpr int kAtOnce = 64;  // fresh objects: pages are touched as needed

PyObject*& next_of(PyObject* o) { return *reinterpret_cast<PyObject**>(gc::link_of(o)); }

}  // namespace

// The first cache line of a region; the objects follow, each behind the collector's words.
struct ObjectPool::Region {
  size_t carved;
  size_t idle;  // used by release() only
};

// Whole cache lines: two objects next to one another share none.
size_t ObjectPool::cell() const noexcept {
  return (bytes_ + sizeof(gc::Link) + kLine - 1) / kLine * kLine;
}

ObjectPool::Region* ObjectPool::region_of(const PyObject* o) const noexcept {
  auto* start = reinterpret_cast<Region*>(reinterpret_cast<uintptr_t>(o) & ~(kRegion - 1));
  return std::binary_search(regions_.begin(), regions_.end(), start) ? start : nullptr;
}

PyObject* ObjectPool::take_slowly(PyTypeObject* type) {
#ifndef ADJOINT_PLAIN_MALLOC
  if (!gc::back_links()) {
    if (linked_)
      refill();
    else
      carve(type);
    if (count_) return items_[--count_];
  }
#endif
  PyObject* o = _PyObject_GC_New(type);
  if (!o) throw PythonError{};
  std::memset(reinterpret_cast<char*>(o) + sizeof(PyObject), 0, bytes_ - sizeof(PyObject));
  return o;
}

// Taken in the order in which they are linked, which is mostly that of their addresses.
void ObjectPool::refill() {
  PyObject** last = items_ + kRoom / 2;
  PyObject** first = last;
  while (linked_ && first != items_) {
    PyObject* o = linked_;
    linked_ = std::exchange(next_of(o), nullptr);
    --linked_count_;
    *--first = o;
  }
  count_ = static_cast<int>(last - first);
  if (first != items_) std::move(first, last, items_);
}

bool ObjectPool::carve(PyTypeObject* type) noexcept {
  const size_t size = cell(), capacity = (kRegion - kLine) / size;
  if (!carving_ || carving_->carved == capacity) {
    try {
      regions_.reserve(regions_.size() + 1);
    } catch (const std::bad_alloc&) {
      return false;
    }
    void* memory = memory::detail::map_aligned(kRegion, false);
    if (!memory) return false;
#ifdef MADV_POPULATE_WRITE
    // All pages in one call, but for the first region, of which small programs touch a few. Huge
    // pages save nothing here once they are there, and take four times as long to get on a virtual
    // machine whose memory is new.
    if (!regions_.empty()) madvise(memory, kRegion, MADV_POPULATE_WRITE);
#endif
    carving_ = static_cast<Region*>(memory);
    if (!std::exchange(counted_, true)) count_from_now_on();
    regions_.insert(std::ranges::upper_bound(regions_, carving_), carving_);
  }
  const size_t from = carving_->carved, to = std::min(from + kAtOnce, capacity);
  char* cells = reinterpret_cast<char*>(carving_) + kLine;
  for (size_t k = to; k-- > from;) {
    auto* o = reinterpret_cast<PyObject*>(cells + k * size + sizeof(gc::Link));
    items_[count_++] = PyObject_Init(o, type);
  }
  carving_->carved = to;
  return true;
}

void ObjectPool::give_up(PyObject* o) noexcept {
  gc::forget_ring(o);
  if (region_of(o)) {
    next_of(o) = std::exchange(linked_, o);
    ++linked_count_;
  } else {
    PyObject_GC_Del(o);
  }
}

// Those that died last stay at hand: they are in the caches.
void ObjectPool::make_room() noexcept {
  constexpr int kOld = kRoom / 2;
  for (int k = 0; k < kOld; ++k) give_up(items_[k]);
  std::move(items_ + kOld, items_ + count_, items_);
  count_ -= kOld;
  const size_t most = memory::stats().cache_limit / cell();
  if (linked_count_ > most && linked_count_ > 2 * released_at_) release();
}

size_t ObjectPool::release() noexcept {
  for (Region* r : regions_) r->idle = 0;
  for (int k = 0; k < count_; ++k) {
    if (Region* r = region_of(items_[k])) ++r->idle;
  }
  for (PyObject* o = linked_; o; o = next_of(o)) ++region_of(o)->idle;
  auto goes = [&](const PyObject* o) {
    const Region* r = region_of(o);
    return r && r->idle == r->carved;
  };
  count_ = static_cast<int>(std::remove_if(items_, items_ + count_, goes) - items_);
  for (PyObject** link = &linked_; *link;) {
    if (goes(*link)) {
      *link = next_of(*link);
      --linked_count_;
    } else {
      link = &next_of(*link);
    }
  }
  size_t bytes = 0;
  std::erase_if(regions_, [&](Region* r) {
    if (r->idle != r->carved) return false;
    if (r == carving_) carving_ = nullptr;
    munmap(r, kRegion);
    bytes += kRegion;
    return true;
  });
  released_at_ = linked_count_;
  return bytes;
}

}  // namespace adjoint
