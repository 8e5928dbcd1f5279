// The caching allocator behind every tensor's storage: blocks that are given back are kept and
// handed out again, so that a loop of operations neither calls malloc nor takes page faults.
//
// CONTRACT: the caller holds the GIL. Nothing here locks; code that runs without the GIL (kernels,
// the threads of parallel/pool.h) uses its own scratch memory.
//
// Three tiers (Note [Tiers] in allocator.cpp); only the hot path of the smallest is in this header.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__) && !defined(ADJOINT_PLAIN_MALLOC)
#define ADJOINT_PLAIN_MALLOC 1  // every block comes from malloc, so that ASan sees its bounds
#endif

namespace adjoint::memory {

inline constexpr size_t kAlignment = 64;     // of every block: a cache line, an AVX-512 vector
inline constexpr size_t kSmallLimit = 4096;  // up to here: 64-byte classes, inline free lists
inline constexpr size_t kMediumLimit = size_t{1} << 20;

// Thrown when a request cannot be met, also before trying when it exceeds the machine's memory.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(size_t bytes) noexcept;  // composes the message from the current figures
  const char* what() const noexcept override { return message_; }
  size_t bytes() const noexcept { return bytes_; }

 private:
  size_t bytes_;
  char message_[320];
};

// Sizes are those of blocks (requests rounded up to their class), in bytes.
struct Stats {
  size_t allocated;     // in use
  size_t peak;          // the largest `allocated` since the last reset_peak()
  size_t reserved;      // held from the operating system: in use and cached
  size_t cached;        // held but idle: reserved - allocated
  size_t cache_limit;   // idle medium and large blocks above this are given back
  uint64_t n_alloc;     // calls of allocate()
  uint64_t n_reuse;     // ... that were served from the cache
  uint64_t n_os_alloc;  // requests to the operating system (or to malloc)
  uint64_t n_os_free;   // blocks given back to it
};

Stats stats() noexcept;
void reset_peak() noexcept;
// Gives every idle block back to the operating system; returns the number of bytes.
size_t release_cached() noexcept;
// Takes effect at once: surplus idle blocks are given back.
void set_cache_limit(size_t bytes) noexcept;
// Memory and swap this process may use: the machine's, or its container's limit if that is lower.
size_t total_memory() noexcept;

namespace detail {

struct FreeBlock {
  FreeBlock* next;
};

struct State {
  FreeBlock* small[kSmallLimit / kAlignment];
  size_t allocated, peak, reserved;
  uint64_t n_alloc, n_fresh, n_os_alloc, n_os_free;

  void count_out(size_t size) noexcept {
    ++n_alloc;
    allocated += size;
    if (allocated > peak) peak = allocated;
  }
};

// Hidden: the free lists are addressed directly, not through the global offset table.
extern __attribute__((visibility("hidden"))) State state;

void* allocate_slow(size_t bytes);
void deallocate_slow(void* p, size_t bytes) noexcept;

// 0 and 1..64 bytes are class 0, 65..128 class 1, ...
inline size_t small_class(size_t bytes) noexcept { return (bytes - (bytes != 0)) / kAlignment; }

}  // namespace detail

// A block of at least `bytes` bytes, aligned to 64, contents unspecified; never null, also for 0.
// Throws OutOfMemory.
inline void* allocate(size_t bytes) {
#ifndef ADJOINT_PLAIN_MALLOC
  if (bytes <= kSmallLimit) [[likely]] {
    const size_t c = detail::small_class(bytes);
    if (detail::FreeBlock* block = detail::state.small[c]) [[likely]] {
      detail::state.small[c] = block->next;
      detail::state.count_out((c + 1) * kAlignment);
      return block;
    }
  }
#endif
  return detail::allocate_slow(bytes);
}

// `bytes` is what allocate() was asked for. Null is ignored.
inline void deallocate(void* p, size_t bytes) noexcept {
#ifndef ADJOINT_PLAIN_MALLOC
  if (bytes <= kSmallLimit && p) [[likely]] {
    const size_t c = detail::small_class(bytes);
    auto* block = static_cast<detail::FreeBlock*>(p);
    block->next = detail::state.small[c];
    detail::state.small[c] = block;
    detail::state.allocated -= (c + 1) * kAlignment;
    return;
  }
#endif
  detail::deallocate_slow(p, bytes);
}

}  // namespace adjoint::memory
