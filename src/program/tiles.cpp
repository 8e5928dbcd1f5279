// Running loops over tiles. Read tiles.h first.
#include "tiles.h"

#include <atomic>

#include "../kernels/convert.h"
#include "../kernels/faults.h"
#include "../ops/elementwise_forward.h"
#include "../parallel/pool.h"
#include "../tensor/gil.h"

namespace adjoint {
namespace {

using Place = FusedLoops::Place;
using Way = FusedLoops::Way;

constexpr int64_t kWorthTaking = 64 << 10;  // bytes of a result for which memory is looked for

// Moves `n` elements between memory, from position `start` on, and a tile.
template <bool Gather>
void move(const FusedLoops& f, const Place& p, char* data, int64_t start, int64_t n, char* tile) {
  int nd = f.shape.size();
  auto item = static_cast<int64_t>(item_size(p.wanted));
  auto run = [&](char* at, int64_t stride, int64_t count) {
    if constexpr (Gather)
      copy_run(tile, item, p.wanted, at, stride, p.dtype, count);
    else
      copy_run(at, stride, p.dtype, tile, item, p.wanted, count);
    tile += count * item;
  };
  if (nd == 0) return run(data, 0, 1);
  int64_t index[kMaxDims];
  for (int i = nd - 1; i >= 0; --i) {
    index[i] = start % f.shape[i];
    start /= f.shape[i];
    data += index[i] * p.strides[i];
  }
  int64_t row = f.shape[nd - 1], stride = p.strides[nd - 1];
  while (true) {
    int64_t count = std::min(n, row - index[nd - 1]);
    run(data, stride, count);
    n -= count;
    if (n == 0) return;
    data -= index[nd - 1] * stride;
    index[nd - 1] = 0;
    for (int i = nd - 2; i >= 0; --i) {
      data += p.strides[i];
      if (++index[i] < f.shape[i]) break;
      data -= p.strides[i] * f.shape[i];
      index[i] = 0;
    }
  }
}

void run_steps(const FusedLoops& f, char* const* data, char** arguments, char* tiles, int64_t start,
               int64_t n) {
  for (const FusedLoops::Step& s : f.steps) {
    if (s.loop) [[likely]] {
      s.loop(arguments + s.at, n);
      continue;
    }
    const Place& p = f.places[s.at];
    char* tile = tiles + p.tile * f.tile_bytes();
    if (p.written)
      move<false>(f, p, data[s.at], start, n, tile);
    else
      move<true>(f, p, data[s.at], start, n, tile);
  }
}

void fill_repeated(const FusedLoops& f, char* const* data, char* tiles, int64_t n) {
  for (size_t k = 0; k < f.places.size(); ++k) {
    const Place& p = f.places[k];
    if (p.way != Way::Repeated) continue;
    copy_run(tiles + p.tile * f.tile_bytes(), static_cast<int64_t>(item_size(p.wanted)), p.wanted,
             data[k], 0, p.dtype, n);
  }
}

// Where position `start` of a row lies.
char* row_at(const FusedLoops& f, const Place& p, char* data, int64_t start) {
  for (int i = f.shape.size() - 1; i >= 0; --i) {
    data += start % f.shape[i] * p.strides[i];
    start /= f.shape[i];
  }
  return data;
}

void point(const FusedLoops& f, const Place& p, char** arguments, char* at) {
  for (uint32_t k = p.first; k < p.last; ++k) arguments[f.pointed[k]] = at;
}

// Tiles and arguments of the thread that runs a piece.
struct Workspace {
  std::vector<char> memory;
  std::vector<char*> arguments;

  char* prepare(const FusedLoops& f) {
    size_t bytes = f.tiles * f.tile_bytes() + 64;
    if (memory.size() < bytes) memory.resize(bytes);
    char* tiles = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    if (arguments.size() < f.arguments.size()) arguments.resize(f.arguments.size());
    for (size_t k = 0; k < f.arguments.size(); ++k) {
      const FusedLoops::Argument& a = f.arguments[k];
      arguments[k] = (a.is_number ? f.numbers : tiles) + a.tile * f.tile_bytes();
    }
    return tiles;
  }
};

void run_piece(const FusedLoops& f, char* const* data, int64_t begin, int64_t end) {
  static thread_local Workspace workspace;
  char* tiles = workspace.prepare(f);
  char** arguments = workspace.arguments.data();
  fill_repeated(f, data, tiles, std::min(f.tile, end - begin));
  int64_t row = f.by_rows ? f.shape.back() : f.numel;
  for (int64_t at = begin; at < end;) {
    int64_t n = std::min(f.tile, end - at);
    if (f.by_rows) n = std::min(n, row - at % row);
    for (size_t k = 0; k < f.places.size(); ++k) {
      const Place& p = f.places[k];
      if (p.way == Way::Flat)
        point(f, p, arguments, data[k] + at * static_cast<int64_t>(item_size(p.dtype)));
      else if (p.way == Way::Row)
        point(f, p, arguments, row_at(f, p, data[k], at));
    }
    run_steps(f, data, arguments, tiles, at, n);
    at += n;
  }
}

// All of it is one tile: its memory and pointers are those of the instruction. The GIL is held.
bool run_one(const FusedLoops& f, char* const* data) {
  auto** arguments = const_cast<char**>(f.own_arguments.data());
  char* memory = f.own_memory.get();
  char* tiles = memory + (64 - reinterpret_cast<uintptr_t>(memory) % 64) % 64;
  for (size_t k = 0; k < f.places.size(); ++k) {
    const Place& p = f.places[k];
    point(f, p, arguments, data[k]);
    if (p.way == Way::Repeated) {
      copy_run(tiles + p.tile * f.tile_bytes(), static_cast<int64_t>(item_size(p.wanted)), p.wanted,
               data[k], 0, p.dtype, f.numel);
    }
  }
  run_steps(f, data, arguments, tiles, 0, f.numel);
  return !f.may_fault || !take_integer_fault();
}

bool run_all(const FusedLoops& f, char* const* data) {
  if (f.numel <= f.tile) return run_one(f, data);
  if (f.numel < 2 * f.grain) {
    run_piece(f, data, 0, f.numel);
    return !f.may_fault || !take_integer_fault();
  }
  std::atomic<bool> fault{false};
  parallel::parallel_ranges(f.numel, f.grain, [&](int64_t begin, int64_t end) {
    run_piece(f, data, begin, end);
    if (f.may_fault && take_integer_fault()) fault = true;
  });
  return !fault;
}

bool contains(const std::vector<int>& list, int x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// The memory of an operand that nobody reads after this, for result `write`.
Tensor taken(const FusedLoops& f, const Instruction& i, Tensor* registers, int write) {
  const Geometry& g = f.results[write];
  if (f.numel * static_cast<int64_t>(item_size(g.dtype)) < kWorthTaking) return {};
  for (const FusedLoops::Takeover& t : f.takeovers) {
    int reg = i.reads[t.read].reg;
    if (t.write != write || !contains(i.last, reg)) continue;
    const Tensor& from = registers[reg];
    if (from && from.unique() && g.is_of(from.get())) return std::move(registers[reg]);
  }
  return {};
}

}  // namespace

void run_tiles(const FusedLoops& f, const Instruction& i, Tensor* registers) {
  constexpr size_t kUsual = 32;
  char* usual[kUsual];
  std::vector<char*> many(f.places.size() > kUsual ? f.places.size() : 0);
  char** data = many.empty() ? usual : many.data();
  for (size_t k = 0; k < f.places.size(); ++k) {
    const Place& p = f.places[k];
    if (!p.written) data[k] = registers[i.reads[p.index].reg]->data + p.offset;
  }
  for (size_t w = 0; w < f.results.size(); ++w) {
    const Geometry& g = f.results[w];
    Tensor out = taken(f, i, registers, static_cast<int>(w));
    if (!out) out = empty_strided(g.shape, g.strides, g.dtype);
    registers[i.writes[w]] = std::move(out);
  }
  if (f.numel == 0) return;
  for (size_t k = 0; k < f.places.size(); ++k) {
    const Place& p = f.places[k];
    if (p.written) data[k] = registers[i.writes[p.index]]->data;
  }
  bool fine;
  {
    WithoutGil release(f.numel >= kReleaseGil);
    fine = run_all(f, data);
  }
  check_division(fine);
}

}  // namespace adjoint
