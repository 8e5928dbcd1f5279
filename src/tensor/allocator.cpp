// The allocator's slow paths: carving slabs, the medium and large tiers, the cap, the figures.
//
// Note [Tiers]
//   small   <= 4 KiB   64-byte classes. Blocks are carved from 64 KiB slabs, and those from 2 MiB
//                      mapped regions; a free block holds the link of its class's list.
//   medium  <= 1 MiB   eight classes per doubling (at most 12.5 % waste), each from malloc, each
//                      with a free list.
//   large   the rest   multiples of 2 MiB, mapped 2 MiB-aligned with huge pages (large_cache.h).
// Idle medium and large blocks are limited by set_cache_limit(). Idle small blocks are not: a slab
// can go only when all its blocks are idle, which is established when someone asks for it.
#include "tensor/allocator.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <vector>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "tensor/keeper.h"
#include "tensor/large_cache.h"

namespace adjoint::memory {
namespace detail {

constinit State state{};

namespace {

constexpr size_t kSlab = size_t{64} << 10;
constexpr size_t kCarve = 4096;  // carved at once, so that a slab's pages are touched as needed
constexpr size_t kMediumClasses = 64;

// ---- small

// The first cache line of a slab; the blocks follow.
struct Slab {
  size_t block_size;
  size_t carved;  // blocks handed to the free list so far
  size_t idle;    // used by release_small() only

  char* block(size_t i) noexcept {
    return reinterpret_cast<char*>(this) + kAlignment + i * block_size;
  }
  size_t capacity() const noexcept { return (kSlab - kAlignment) / block_size; }
};
static_assert(sizeof(Slab) <= kAlignment);

Slab* slab_of(void* block) noexcept {
  return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(block) & ~(kSlab - 1));
}

// Never destroyed: tensors may be freed after static destructors have run.
struct Slabs {
  Slab* carving[kSmallLimit / kAlignment] = {};  // per class, the slab with room left
  std::vector<Slab*> used;
  std::vector<Slab*> empty;  // address space whose pages were given back
};
Slabs& slabs() {
  static Slabs& instance = *new Slabs;
  return instance;
}

// Maps 2 MiB and cuts it into slabs. Both vectors get their room here, so that moving a slab from
// one to the other cannot fail.
void map_region(Slabs& s) {
  const size_t total = s.used.size() + s.empty.size() + kHugePage / kSlab;
  s.used.reserve(total);
  s.empty.reserve(total);
  char* region = static_cast<char*>(map_aligned(kHugePage));
  if (!region) throw std::bad_alloc();
  for (size_t offset = kHugePage; offset; offset -= kSlab)
    s.empty.push_back(reinterpret_cast<Slab*>(region + offset - kSlab));
  ++state.n_os_alloc;
}

Slab* new_slab(size_t block_size) {
  Slabs& s = slabs();
  if (s.empty.empty()) map_region(s);
  Slab* slab = s.empty.back();
  s.empty.pop_back();
  s.used.push_back(slab);
  *slab = {block_size, 0, 0};
  state.reserved += kSlab;
  return slab;
}

// Refills the free list of class c and takes one block from it.
[[maybe_unused]] void* allocate_small(size_t c) {
  const size_t size = (c + 1) * kAlignment;
  Slab*& slab = slabs().carving[c];
  if (!slab || slab->carved == slab->capacity()) slab = new_slab(size);
  const size_t first = slab->carved;
  const size_t last = std::min(first + std::max<size_t>(kCarve / size, 1), slab->capacity());
  FreeBlock* list = state.small[c];
  for (size_t i = last; i-- > first;) {
    auto* block = reinterpret_cast<FreeBlock*>(slab->block(i));
    block->next = list;
    list = block;
  }
  slab->carved = last;
  state.small[c] = list->next;
  ++state.n_fresh;
  state.count_out(size);
  return list;
}

// Gives back the pages of slabs without a block in use. Three passes over the free lists: count,
// unlink the blocks of idle slabs, release.
size_t release_small() noexcept {
  Slabs& s = slabs();
  for (Slab* slab : s.used) slab->idle = 0;
  for (FreeBlock* list : state.small)
    for (FreeBlock* b = list; b; b = b->next) ++slab_of(b)->idle;
  for (FreeBlock*& list : state.small)
    for (FreeBlock** link = &list; *link;) {
      const Slab* slab = slab_of(*link);
      if (slab->idle == slab->carved)
        *link = (*link)->next;
      else
        link = &(*link)->next;
    }
  for (Slab*& slab : s.carving)
    if (slab && slab->idle == slab->carved) slab = nullptr;
  const auto idle = std::partition(s.used.begin(), s.used.end(),
                                   [](Slab* slab) { return slab->idle != slab->carved; });
  const size_t bytes = static_cast<size_t>(s.used.end() - idle) * kSlab;
  for (auto it = idle; it != s.used.end(); ++it) {
    madvise(*it, kSlab, MADV_DONTNEED);
    s.empty.push_back(*it);
    ++state.n_os_free;
  }
  s.used.erase(idle, s.used.end());
  state.reserved -= bytes;
  return bytes;
}

// ---- medium

FreeBlock* medium[kMediumClasses];
size_t medium_idle = 0;

struct MediumClass {
  size_t index, size;
};
// Eight steps between 2^e and 2^(e+1).
MediumClass medium_class(size_t bytes) noexcept {
  const size_t last = bytes - 1;
  const int e = std::bit_width(last) - 1;
  const size_t step = last >> (e - 3);  // 8 ... 15
  return {static_cast<size_t>(e - 12) * 8 + (step - 8), (step + 1) << (e - 3)};
}

size_t release_medium() noexcept {
  size_t bytes = 0;
  for (size_t c = 0; c < kMediumClasses; ++c) {
    const size_t size = (c % 8 + 9) << (c / 8 + 9);
    while (FreeBlock* block = medium[c]) {
      medium[c] = block->next;
      std::free(block);
      bytes += size;
      ++state.n_os_free;
    }
  }
  medium_idle = 0;
  state.reserved -= bytes;
  return bytes;
}

// ---- limits

size_t read_limit(const char* path) noexcept {
  size_t value = SIZE_MAX;
  if (FILE* file = std::fopen(path, "r")) {
    unsigned long long v;  // "max" does not scan: no limit
    if (std::fscanf(file, "%llu", &v) == 1) value = v;
    std::fclose(file);
  }
  return value;
}

size_t find_total_memory() noexcept {
  size_t total = SIZE_MAX / 2;
  struct sysinfo info;
  if (sysinfo(&info) == 0) total = (info.totalram + info.totalswap) * info.mem_unit;
  total = std::min(total, read_limit("/sys/fs/cgroup/memory.max"));
  return std::min(total, read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
}

size_t& cache_limit() noexcept {
  static size_t limit = std::min(total_memory() / 4, size_t{2} << 30);
  return limit;
}

size_t idle_bytes() noexcept { return medium_idle + large_cache().idle(); }

// Large blocks go first and the one idle longest before others; medium blocks go together.
void trim_to(size_t limit) noexcept {
  while (idle_bytes() > limit)
    if (const size_t freed = large_cache().evict(idle_bytes() - limit)) {
      state.reserved -= freed;
      ++state.n_os_free;
    } else {
      release_medium();
    }
}

// ---- the parts together

// Takes fresh memory, after giving back idle blocks if need be.
template <class Get>
void* fresh(size_t bytes, size_t size, Get get) {
  // Asked before the kernel is: with overcommit it would agree, and end the process later.
  if (size > total_memory() - std::min(total_memory(), state.allocated)) throw OutOfMemory(bytes);
  if (state.reserved + size > total_memory()) release_cached();
  void* p = get(size);
  if (!p && release_cached()) p = get(size);
  if (!p) throw OutOfMemory(bytes);
  state.reserved += size;
  ++state.n_fresh;
  ++state.n_os_alloc;
  return p;
}

void* malloc_aligned(size_t size) noexcept { return std::aligned_alloc(kAlignment, size); }

[[maybe_unused]] void* allocate_medium(size_t bytes) {
  const auto [c, size] = medium_class(bytes);
  void* p = medium[c];
  if (p) {
    medium[c] = medium[c]->next;
    medium_idle -= size;
  } else {
    p = fresh(bytes, size, malloc_aligned);
  }
  state.count_out(size);
  return p;
}

[[maybe_unused]] void* allocate_large(size_t bytes) {
  const size_t size = round_to_huge(bytes);
  void* p = large_cache().take(size);
  if (!p) p = fresh(bytes, size, [](size_t s) { return map_aligned(s); });
  state.count_out(size);
  return p;
}

}  // namespace

#ifdef ADJOINT_PLAIN_MALLOC

static size_t plain_size(size_t bytes) noexcept { return (small_class(bytes) + 1) * kAlignment; }

void* allocate_slow(size_t bytes) {
  if (bytes > total_memory()) throw OutOfMemory(bytes);
  const size_t size = plain_size(bytes);
  // Exactly as many bytes as asked for, so that the first byte beyond is reported.
  void* p = fresh(bytes, size, [bytes](size_t) {
    void* block = nullptr;
    return posix_memalign(&block, kAlignment, bytes ? bytes : 1) ? nullptr : block;
  });
  state.count_out(size);
  return p;
}

void deallocate_slow(void* p, size_t bytes) noexcept {
  if (!p) return;
  std::free(p);
  state.allocated -= plain_size(bytes);
  state.reserved -= plain_size(bytes);
  ++state.n_os_free;
}

#else

void* allocate_slow(size_t bytes) {
  if (bytes > total_memory()) throw OutOfMemory(bytes);
  try {
    if (bytes <= kSmallLimit) return allocate_small(small_class(bytes));
    if (bytes <= kMediumLimit) return allocate_medium(bytes);
    return allocate_large(bytes);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const std::bad_alloc&) {  // from the bookkeeping
    throw OutOfMemory(bytes);
  }
}

void deallocate_slow(void* p, size_t bytes) noexcept {
  if (!p) return;
  if (bytes <= kMediumLimit) {
    const auto [c, size] = medium_class(bytes);
    auto* block = static_cast<FreeBlock*>(p);
    block->next = medium[c];
    medium[c] = block;
    medium_idle += size;
    state.allocated -= size;
  } else {
    const size_t size = round_to_huge(bytes);
    state.allocated -= size;
    state.reserved -= large_cache().put(p, size);
  }
  if (idle_bytes() > cache_limit()) trim_to(cache_limit());
}

#endif

}  // namespace detail

using detail::state;

size_t total_memory() noexcept {
  static const size_t total = detail::find_total_memory();
  return total;
}

Stats stats() noexcept {
  return {state.allocated,
          state.peak,
          state.reserved + Keeper::all_reserved(),
          state.reserved - state.allocated,
          detail::cache_limit(),
          state.n_alloc,
          state.n_alloc - state.n_fresh,
          state.n_os_alloc,
          state.n_os_free};
}

void reset_peak() noexcept { state.peak = state.allocated; }

size_t release_cached() noexcept {
  const size_t before = state.reserved;
  while (const size_t freed = detail::large_cache().evict(SIZE_MAX)) {
    state.reserved -= freed;
    ++state.n_os_free;
  }
  detail::release_medium();
  detail::release_small();
  const size_t others = Keeper::release_all();
#ifdef __GLIBC__
  malloc_trim(0);  // the medium blocks went to malloc, which would keep their pages
#endif
  return before - state.reserved + others;
}

void set_cache_limit(size_t bytes) noexcept {
  detail::cache_limit() = bytes;
  detail::trim_to(bytes);
}

namespace {

struct Human {
  char text[32];
};
Human human(size_t bytes) noexcept {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  Human out;
  std::snprintf(out.text, sizeof out.text, unit ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
  return out;
}

}  // namespace

OutOfMemory::OutOfMemory(size_t bytes) noexcept : bytes_(bytes) {
  std::snprintf(
      message_, sizeof message_,
      "out of memory: tried to allocate %zu bytes (%s); this machine has %s, of which "
      "tensors use %s.\n  fix: use smaller shapes or a smaller dtype, or free tensors that "
      "are no longer needed",
      bytes, human(bytes).text, human(total_memory()).text, human(state.allocated).text);
}

}  // namespace adjoint::memory
