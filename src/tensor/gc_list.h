// Entering and leaving the list of objects that Python's garbage collector looks at.
//
// A recorded op does both twice, and the calls of the C API cost as much as the multiplication of
// two small tensors. The list is a ring of (next, previous) pairs in front of the objects, the same
// since CPython 3.9 and up to 3.13; find_youngest() makes sure of it at import, and where the ring
// looks different the C API does the work.
#pragma once
#include <Python.h>

#include <cstdint>

namespace adjoint::gc {

struct Link {
  uintptr_t next;
  uintptr_t previous;  // the two lowest bits are the collector's own
};
inline constexpr uintptr_t kCollectorBits = 3, kFinalized = 1;

// The ring that new objects join; null when the C API is used.
extern __attribute__((visibility("hidden"))) Link* youngest;
void find_youngest();  // called once at import

inline Link* link_of(void* object) { return static_cast<Link*>(object) - 1; }

inline void track(void* object) {
  if (!youngest) [[unlikely]]
    return PyObject_GC_Track(object);
  Link* self = link_of(object);
  auto* last = reinterpret_cast<Link*>(youngest->previous);
  last->next = reinterpret_cast<uintptr_t>(self);
  self->previous = (self->previous & kCollectorBits) | reinterpret_cast<uintptr_t>(last);
  self->next = reinterpret_cast<uintptr_t>(youngest);
  youngest->previous = reinterpret_cast<uintptr_t>(self);
}

inline void untrack(void* object) {
  if (!youngest) [[unlikely]]
    return PyObject_GC_UnTrack(object);
  Link* self = link_of(object);
  if (!self->next) return;  // it is not in the ring
  auto* before = reinterpret_cast<Link*>(self->previous & ~kCollectorBits);
  auto* after = reinterpret_cast<Link*>(self->next);
  before->next = self->next;
  after->previous = (after->previous & kCollectorBits) | reinterpret_cast<uintptr_t>(before);
  self->next = 0;
  self->previous &= kFinalized;
}

// The finalizer may run once more: an object from a free list keeps the mark of its former life.
inline void forget_finalized(void* object) {
  if (youngest) link_of(object)->previous &= ~kFinalized;
}

}  // namespace adjoint::gc
