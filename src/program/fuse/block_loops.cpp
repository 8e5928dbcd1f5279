// Read block_loops.h first.
#include "program/fuse/block_loops.h"

#include <cstring>

#include "kernels/convert.h"

namespace adjoint {

void move_loop(char* const* p, int64_t n) {
  const auto& m = *reinterpret_cast<const Moving*>(p[0]);
  move(*m.tiles, m.tiles->places[m.place], p[2], m.start, n, p[1]);
}

void repeat_loop(char* const* p, int64_t n) {
  const auto& m = *reinterpret_cast<const Moving*>(p[0]);
  const TileLoops::Place& place = m.tiles->places[m.place];
  copy_run(p[1], static_cast<int64_t>(item_size(place.wanted)), place.wanted, p[2], 0, place.dtype,
           n);
}

void assemble_loop(char* const* p, int64_t n) {
  const auto& a = *reinterpret_cast<const Assembling*>(p[0]);
  for (size_t k = 0; k < a.places.size(); ++k) a.data[a.places[k]] = p[2 + k];
  const TileLoops::Assembly& of = a.tiles->assemblies[a.assembly];
  const char* found = assemble(*a.tiles, of, a.data.data(), a.start, n, p[1]);
  if (found != p[1]) std::memcpy(p[1], found, static_cast<size_t>(n) * item_size(of.dtype));
}

void tiles_loop(char* const* p, int64_t n) {
  const auto& t = *reinterpret_cast<const Tiling*>(p[0]);
  run_piece(*t.tiles, const_cast<char*>(t.numbers.data()), p + 1, 0, n);
}

void Filled::refresh(const char* element) {
  if (there && std::memcmp(last, element, item_size(from)) == 0) return;
  std::memcpy(last, element, item_size(from));
  copy_run(memory, static_cast<int64_t>(item_size(to)), to, last, 0, from, count);
  there = true;
}

}  // namespace adjoint
