// Loops over tiles as generated code: what run_piece does with kernels, done with values in
// registers. Read program/fuse/tiles.h first; next: tile_code.cpp.
#pragma once
#include <optional>

#include "program/fuse/tiles.h"

namespace adjoint::native {

// Whole: all positions by one call of a Loop, whose pointers are memory by place.
// Range: positions [begin, end) of the tiles' order. What is summed starts at position `begin` of its
// memory.
enum class Extent : uint8_t { Whole, Range };
using RangeFunction = void (*)(char* const* places, int64_t begin, int64_t end);

// A function of that name; nothing for what generated code does not do.
std::optional<std::string> tile_code(const TileLoops& f, Extent extent, const std::string& name);
// What the code depends on, as bytes: equal ones have the same code.
std::string tile_key(const TileLoops& f, Extent extent);

}  // namespace adjoint::native
