// Gathering and scattering where rows are short: points in space, pairs of them, small matrices.
// A call for each row would cost more than the copies, so whole runs of rows are moved at a time.
#pragma once
#include "program/fuse/tiles.h"

namespace adjoint {

inline constexpr int64_t kLongestShortRow = 255;  // elements

// Whether rows of a place are short, and moved as they are.
bool has_short_rows(const TileLoops& f, const TileLoops::Place& p);
// The same as `move` (tiles.h), of such a place.
void move_short_rows(const TileLoops& f, const TileLoops::Place& p, char* data, int64_t start,
                     int64_t n, char* tile);

}  // namespace adjoint
