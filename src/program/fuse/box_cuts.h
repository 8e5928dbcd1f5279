// How the loops of a block read values that are put together from boxes (TileLoops::Assembly): cut where
// boxes of one axis begin, or from a tile that lies in one box. Read tiles.h and block.h first.
#pragma once
#include <span>

#include "program/fuse/tiles.h"

namespace adjoint {

// Positions of a tile, or of a part of it.
struct Range {
  int64_t start, end;
  int64_t count() const { return end - start; }
};

// Boxes of one axis, each of which lies as the tile does.
bool is_plain(const TileLoops& f, const TileLoops::Assembly& a);
// Whether loops run box by box on what lies there, which costs less than to copy it.
bool is_read_in_place(const TileLoops& f, const TileLoops::Assembly& a);
// The box that position `at` is in.
const TileLoops::Box& box_at(const TileLoops::Assembly& a, int64_t at);
bool is_in_one_box(const TileLoops::Assembly& a, Range part);
// The box whose memory is that of the tile; null for most.
const TileLoops::Box* whole_box(const TileLoops::Assembly& a, Range tile);

// The arguments of a loop, which end where those of the next one start.
std::vector<uint32_t> arguments_of(const TileLoops& f, size_t action);
// Positions at which a loop is cut: where boxes begin, and the end.
std::vector<int64_t> cuts_of(const TileLoops& f, std::span<const uint32_t> arguments, Range tile);

}  // namespace adjoint
