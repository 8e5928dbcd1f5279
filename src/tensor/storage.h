// Storage: a counted block of memory with the version that in-place changes raise.
// Header and data are one allocation for memory of our own; foreign memory (NumPy, DLPack) has a
// header of its own and a release function.
#pragma once
#include <cstdint>

#include "python/source_line.h"
#include "tensor/allocator.h"

namespace adjoint {

// What memory made in this thread is marked with. The low byte: how many transforms that
// differentiate (grad, vjp, jvp) call a function, each inside the last; memory made before the
// innermost began is not that function's to change. The high byte: the number of the recording of a
// program that is under way (program/capture/capture.h).
extern constinit thread_local uint16_t t_birth;
inline int transform_depth(uint16_t birth) { return birth & 0xff; }

// The version counts changes in its lower bits, which `_version` shows; the others tell how often a
// tensor was given other memory (`.data =`), which PyTorch does not count and saved values notice.
inline constexpr uint32_t kCountBits = 24;
inline uint32_t count_of(uint32_t version) { return version & ((1u << kCountBits) - 1); }

struct alignas(64) Storage {
  int64_t references = 1;
  void* data = nullptr;
  size_t bytes = 0;
  uint32_t version = 0;
  bool own = true;  // data follows this header in one block
  bool read_only : 1 = false;
  bool counts_data : 1 = false;  // see kData in tensor.h
  uint16_t born = t_birth;
  void (*release)(void* owner) = nullptr;  // for foreign memory
  void* owner = nullptr;
  SourceLine changed;  // where the last in-place change happened
};
static_assert(sizeof(Storage) == 64 || sizeof(Storage) == 128);

inline Storage* new_storage(size_t bytes) {
  void* block = memory::allocate(bytes + sizeof(Storage));
  auto* s = new (block) Storage;
  s->data = s + 1;
  s->bytes = bytes;
  return s;
}

// Memory that somebody else owns; `release(owner)` is called when the last tensor lets go.
Storage* foreign_storage(void* data, size_t bytes, void (*release)(void*), void* owner);

void destroy(Storage* s) noexcept;

inline void retain(Storage* s) { ++s->references; }
inline void drop(Storage* s) noexcept {
  if (--s->references == 0) destroy(s);
}

// Whether they have bytes in common: several storages can lie on one array from outside.
inline bool overlap(const Storage* a, const Storage* b) {
  auto *p = static_cast<const char*>(a->data), *q = static_cast<const char*>(b->data);
  return a == b || (p < q + b->bytes && q < p + a->bytes);
}

}  // namespace adjoint
