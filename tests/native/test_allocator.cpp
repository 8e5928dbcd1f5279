// The caching allocator: alignment, reuse, classes, the cap, figures, refusals, and that memory
// really goes back. Build together with src/tensor/allocator.cpp and src/tensor/large_cache.cpp.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

#include "tensor/allocator.h"
#include "check.h"

using namespace adjoint;

namespace {

constexpr size_t MiB = size_t{1} << 20;

[[maybe_unused]] size_t resident() {
  size_t total = 0, pages = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  if (std::fscanf(file, "%zu %zu", &total, &pages) != 2) pages = 0;
  std::fclose(file);
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

struct Block {
  unsigned char* p;
  size_t bytes;
  unsigned char mark;
};

Block make(size_t bytes, unsigned char mark) {
  auto* p = static_cast<unsigned char*>(memory::allocate(bytes));
  CHECK(p != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(p) % memory::kAlignment == 0);
  std::memset(p, mark, bytes);
  return {p, bytes, mark};
}

void drop(Block b) {
  bool intact = true;
  for (size_t i = 0; i < b.bytes; i += b.bytes > 65536 ? 4093 : 1) intact &= b.p[i] == b.mark;
  if (b.bytes) intact &= b.p[b.bytes - 1] == b.mark;
  CHECK(intact);
  memory::deallocate(b.p, b.bytes);
}

void blocks_do_not_overlap() {
  const auto before = memory::stats();
  std::mt19937 random(1);
  std::vector<Block> live;
  for (int i = 0; i < 200'000; ++i) {
    if (live.size() > 300 || (!live.empty() && random() % 2)) {
      const size_t k = random() % live.size();
      drop(live[k]);
      live[k] = live.back();
      live.pop_back();
    } else {
      const unsigned scale = random() % 100;
      const size_t limit = scale < 90 ? 5000 : scale < 99 ? 200'000 : 5 * MiB;
      live.push_back(make(random() % limit, static_cast<unsigned char>(random())));
    }
  }
  for (Block b : live) drop(b);
  CHECK(memory::stats().allocated == before.allocated);
  CHECK(memory::stats().n_alloc > before.n_alloc);
}

void edges_of_the_classes() {
  for (size_t around : {size_t{0}, size_t{64}, size_t{4096}, size_t{4608}, size_t{8192},
                        size_t{65536}, MiB, 2 * MiB, 4 * MiB})
    for (size_t bytes : {around ? around - 1 : 0, around, around + 1}) {
      const size_t before = memory::stats().allocated;
      const Block b = make(bytes, 7);
      const size_t size = memory::stats().allocated - before;
      CHECK(size >= bytes);
#ifndef ADJOINT_PLAIN_MALLOC
      if (bytes > 4096 && bytes <= MiB) CHECK(size <= bytes + bytes / 8 + 64);
      if (bytes > MiB) {
        CHECK(size - bytes < 2 * MiB);
        CHECK(reinterpret_cast<uintptr_t>(b.p) % (2 * MiB) == 0);
      }
#endif
      drop(b);
      CHECK(memory::stats().allocated == before);
    }
  memory::deallocate(nullptr, 0);
  memory::deallocate(nullptr, 10 * MiB);
}

void refuses(size_t bytes) {
  try {
    memory::deallocate(memory::allocate(bytes), bytes);
    CHECK(!"refused");
  } catch (const std::bad_alloc& error) {
    const auto* oom = dynamic_cast<const memory::OutOfMemory*>(&error);
    CHECK(oom && oom->bytes() == bytes);
    CHECK(std::string(error.what()).find(std::to_string(bytes)) != std::string::npos);
    CHECK(std::string(error.what()).find("iB") != std::string::npos);
  }
}

void absurd_requests_are_refused() {
  const auto before = memory::stats();
  for (size_t bytes :
       {memory::total_memory() + 1, size_t{100} << 40, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX})
    refuses(bytes);
#ifndef ADJOINT_PLAIN_MALLOC  // ASan marks every byte of such a block, which takes long
  // What is in use counts: two that fit singly do not fit together.
  const size_t half = memory::total_memory() / 8 * 5;
  try {
    void* first = memory::allocate(half);
    refuses(half);
    memory::deallocate(first, half);
  } catch (const memory::OutOfMemory&) {  // a machine that does not overcommit
  }
#endif
  CHECK(memory::stats().allocated == before.allocated);
  memory::release_cached();
}

#ifndef ADJOINT_PLAIN_MALLOC

void blocks_are_reused() {
  for (size_t bytes : {size_t{100}, size_t{50'000}, 3 * MiB}) {
    void* p = memory::allocate(bytes);
    memory::deallocate(p, bytes);
    const auto before = memory::stats();
    void* q = memory::allocate(bytes);
    CHECK(p == q);
    CHECK(memory::stats().n_reuse == before.n_reuse + 1);
    CHECK(memory::stats().n_os_alloc == before.n_os_alloc);
    memory::deallocate(q, bytes);
  }
}

void large_blocks_are_cut_and_joined() {
  memory::release_cached();
  char* whole = static_cast<char*>(memory::allocate(12 * MiB));
  memory::deallocate(whole, 12 * MiB);
  const auto before = memory::stats();
  char* a = static_cast<char*>(memory::allocate(4 * MiB));
  char* b = static_cast<char*>(memory::allocate(4 * MiB));
  char* c = static_cast<char*>(memory::allocate(4 * MiB));
  CHECK(a == whole && b == whole + 4 * MiB && c == whole + 8 * MiB);
  memory::deallocate(a, 4 * MiB);
  memory::deallocate(c, 4 * MiB);
  memory::deallocate(b, 4 * MiB);
  CHECK(memory::allocate(12 * MiB) == whole);
  CHECK(memory::stats().n_os_alloc == before.n_os_alloc);
  memory::deallocate(whole, 12 * MiB);
}

void released_memory_leaves_the_process() {
  memory::release_cached();
  const size_t start = resident();
  std::vector<Block> live;
  for (int i = 0; i < 200'000; ++i) live.push_back(make(200, 1));  // 51 MB of slabs
  for (int i = 0; i < 500; ++i) live.push_back(make(100'000, 2));  // 52 MB
  for (int i = 0; i < 5; ++i) live.push_back(make(10 * MiB, 3));
  CHECK(resident() > start + 140 * MiB);
  for (Block b : live) drop(b);
  CHECK(memory::stats().cached > 140 * MiB);
  const size_t freed = memory::release_cached();
  CHECK(freed > 140 * MiB);
  CHECK(resident() < start + 12 * MiB);
  CHECK(memory::stats().cached <= MiB);
  // The address space that slabs keep is usable again.
  live.clear();
  for (int i = 0; i < 50'000; ++i) live.push_back(make(1 + i % 4096, 5));
  for (Block b : live) drop(b);
}

// A slab with one block in use must stay, the others must go, and the free lists stay sound.
void partly_used_slabs_stay() {
  memory::release_cached();
  std::vector<Block> live, kept;
  for (int i = 0; i < 20'000; ++i) live.push_back(make(64, static_cast<unsigned char>(i)));
  for (size_t i = 0; i < live.size(); ++i)
    if (i % 5000 == 17)
      kept.push_back(live[i]);
    else
      drop(live[i]);
  memory::release_cached();
  CHECK(memory::stats().cached < 5 * 65536);
  for (int i = 0; i < 20'000; ++i) kept.push_back(make(64, static_cast<unsigned char>(i)));
  for (Block b : kept) drop(b);
}

void the_cap_holds() {
  memory::release_cached();
  const size_t old = memory::stats().cache_limit;
  const size_t base = memory::stats().cached;
  memory::set_cache_limit(16 * MiB);
  std::vector<Block> live;
  for (int i = 0; i < 20; ++i) live.push_back(make(4 * MiB, 1));
  for (int i = 0; i < 100; ++i) live.push_back(make(MiB / 2, 1));
  for (Block b : live) {
    drop(b);
    CHECK(memory::stats().cached <= base + 16 * MiB);
  }
  CHECK(memory::stats().cached > base);
  memory::set_cache_limit(0);
  CHECK(memory::stats().cached <= base);
  drop(make(4 * MiB, 1));
  drop(make(MiB / 2, 1));
  CHECK(memory::stats().cached <= base);
  memory::set_cache_limit(old);
}

#endif

void the_peak_is_kept() {
  memory::reset_peak();
  const size_t base = memory::stats().allocated;
  CHECK(memory::stats().peak == base);
  drop(make(3 * MiB, 1));
  CHECK(memory::stats().peak >= base + 3 * MiB);
  memory::reset_peak();
  CHECK(memory::stats().peak == base);
}

}  // namespace

int main() {
  blocks_do_not_overlap();
  edges_of_the_classes();
  absurd_requests_are_refused();
  the_peak_is_kept();
#ifndef ADJOINT_PLAIN_MALLOC
  blocks_are_reused();
  large_blocks_are_cut_and_joined();
  released_memory_leaves_the_process();
  partly_used_slabs_stay();
  the_cap_holds();
#endif
  CHECK(memory::stats().allocated == 0);
  return report("allocator");
}
