// Entering and leaving the lists of objects that Python's garbage collector looks at.
//
// A recorded op does both twice, and the calls of the C API cost as much as the multiplication of
// two small tensors. The list is a ring of (next, previous) pairs in front of the objects, the same
// since CPython 3.9 but for the first versions of 3.14; find_youngest() makes sure of it at import,
// and where the ring looks different the C API does the work.
//
// Note [Objects aside]
// What the collector sees it walks over and over, and a graph of a million nodes is a long way, so
// tensors and nodes wait in a ring of their own as long as none of them can be part of a cycle.
// That needs no search, because of the order in which they are made:
//   - A link that a tensor or a node has from the start leads to something older (the operands that
//     a node keeps, the nodes of its edges, the base of a view) or to something that itself leads
//     nowhere (a leaf's accumulator). Such links alone close no cycle.
//   - Every other link is a *back link*: to a newer tensor or node, or to a Python object, which
//     may lead anywhere at any time. They are hooks, attributes, what custom and compiled functions
//     keep, packed values, tangents, a gradient that has a history or other links, a history that
//     replaces another in a tensor that something keeps (changes in place), and the class of a
//     tensor other than Tensor and Parameter.
// A cycle has at least one back link. So back links are counted: with the first one the whole ring
// is joined to Python's youngest generation, at the cost of four assignments however long it is,
// and while there is one new objects join that generation at once. When the last one is gone no
// cycle is left (garbage in a cycle is not gone before the collector was there), and new objects
// wait aside again. The count errs on one side only: an object that had a back link counts until it
// is freed, so that nobody has to notice when the link goes.
//
// The collector takes the objects aside for an older generation than the one it looks at: the mark
// by which it knows what it is collecting is never set in them. A full collection sees everything,
// as before (see_everything is called when one starts): what is said here decides how soon cycles
// are looked for, and never whether gc.collect() finds them.
#pragma once
#include <Python.h>

#include <cstdint>
#include <utility>

namespace adjoint::gc {

struct Link {
  uintptr_t next;
  uintptr_t previous;  // the two lowest bits are the collector's own
};
inline constexpr uintptr_t kCollectorBits = 3, kFinalized = 1;

// The ring that new objects join: the one aside, or that of Python's youngest generation. Null when
// the C API is used.
extern __attribute__((visibility("hidden"))) Link* ring;
void find_youngest();  // called once at import

// Joins the objects aside to those that Python knows of.
void see_everything();
// How many objects have back links.
int64_t back_links();

// One back link, or several of one object, from set() until it is destroyed.
class BackLink {
 public:
  BackLink() = default;
  ~BackLink() {
    if (on_) remove();
    if (patient == this) patient = nullptr;
  }
  BackLink(const BackLink&) = delete;
  void set() {
    if (!std::exchange(on_, true)) add();
  }
  // For what is made when a long graph has just been, which the collector should not walk over at once: a cycle by way of
  // it is found in the next full collection, or when another back link is set. There is one at a time; others are set().
  void set_patiently();
  // For those that are counted by other means.
  static void add();
  static void remove();

 private:
  bool on_ = false;
  static BackLink* patient;
};

inline Link* link_of(void* object) { return static_cast<Link*>(object) - 1; }

inline void track(void* object) {
  if (!ring) [[unlikely]]
    return PyObject_GC_Track(object);
  Link* self = link_of(object);
  auto* last = reinterpret_cast<Link*>(ring->previous);
  last->next = reinterpret_cast<uintptr_t>(self);
  self->previous = (self->previous & kFinalized) | reinterpret_cast<uintptr_t>(last);
  self->next = reinterpret_cast<uintptr_t>(ring);
  ring->previous = reinterpret_cast<uintptr_t>(self);
}

// Of an object that is in a ring for sure, and goes to a free list or to forget_ring().
inline void leave_ring(void* object) {
  if (!ring) [[unlikely]]
    return PyObject_GC_UnTrack(object);
  Link* self = link_of(object);
  auto* before = reinterpret_cast<Link*>(self->previous & ~kCollectorBits);
  auto* after = reinterpret_cast<Link*>(self->next);
  before->next = self->next;
  after->previous = (after->previous & kCollectorBits) | reinterpret_cast<uintptr_t>(before);
}

// What Python expects of an object that is in no ring; leave_ring() is too much in a hurry.
inline void forget_ring(void* object) {
  if (!ring) return;
  Link* self = link_of(object);
  self->next = 0;
  self->previous &= kFinalized;
}

inline void untrack(void* object) {
  if (!ring) [[unlikely]]
    return PyObject_GC_UnTrack(object);
  if (!link_of(object)->next) return;  // it is not in a ring
  leave_ring(object);
  forget_ring(object);
}

// The finalizer may run once more: an object from a free list keeps the mark of its former life.
// The mark stands in front of the object wherever there is a GIL.
inline void forget_finalized([[maybe_unused]] void* object) {
#ifndef Py_GIL_DISABLED
  if (PyObject_GC_IsFinalized(static_cast<PyObject*>(object)))
    link_of(object)->previous &= ~kFinalized;
#endif
}

}  // namespace adjoint::gc
