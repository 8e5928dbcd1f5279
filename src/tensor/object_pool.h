// Memory of headers and nodes, which are Python objects: kept when they die, for the next ones.
//
// An allocation by CPython costs three times the rest of a small op, and what a long graph gives back
// to it goes on to the operating system, from where the next long graph gets it page by page. So dead
// objects go to a list, from where the short way takes them (the first 4096); the others are linked to one
// another. Fresh ones are cut from regions of two megabytes.
//
// While there are back links (python/gc_list.h), fresh objects come from CPython: it counts them, and looks for
// cycles when there are many. So a pool may hold both kinds, and tells them apart by the region.
// Guarded by the GIL.
#pragma once
#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/keeper.h"

namespace adjoint {

class ObjectPool final : public memory::Keeper {
 public:
  static constexpr int kRoom = 4096;

  // `bytes`: of an object, without what the collector has in front of it.
  explicit constexpr ObjectPool(size_t bytes) : bytes_(bytes) {}

  // A dead object, all fields but the type as they were left, or a fresh one, which is zeroed; its
  // count of references is the caller's to set. Throws PythonError when memory is out.
  [[gnu::always_inline]] PyObject* take(PyTypeObject* type) {
    if (count_) [[likely]]
      return items_[--count_];
    return take_slowly(type);
  }
  // Takes an object that is in no ring, and of the type that it was taken as.
  [[gnu::always_inline]] void put(PyObject* o) noexcept {
    if (count_ == kRoom) [[unlikely]]
      make_room();
    items_[count_++] = o;
  }

  // Whether an object lies in a region, and so must come back whatever its type is by now.
  bool owns(const PyObject* o) const noexcept { return region_of(o) != nullptr; }

  // Gives regions without a living object back to the operating system; returns how many bytes.
  size_t release() noexcept override;
  size_t reserved() const noexcept override { return regions_.size() * kRegion; }

 private:
  static constexpr size_t kRegion = size_t{2} << 20;
  struct Region;

  PyObject* take_slowly(PyTypeObject* type);
  void make_room() noexcept;
  void give_up(PyObject* o) noexcept;  // one that does not go to the array
  void refill();
  bool carve(PyTypeObject* type) noexcept;
  Region* region_of(const PyObject* o) const noexcept;  // null for one of CPython's
  size_t cell() const noexcept;

  size_t bytes_;
  int count_ = 0;
  PyObject* items_[kRoom] = {};
  PyObject* linked_ = nullptr;  // dead objects beyond those, by the first word before each
  size_t linked_count_ = 0;
  size_t released_at_ = 0;        // linked_count_ when release() had looked last
  std::vector<Region*> regions_;  // by address
  Region* carving_ = nullptr;     // the one with room left
  bool counted_ = false;
};

extern __attribute__((visibility("hidden"))) ObjectPool header_pool;

}  // namespace adjoint
