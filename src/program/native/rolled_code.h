// Long groups of ops on few elements, such as a recurrence: where the ops repeat, the code is a loop.
// Read tile_body.h first.
#pragma once
#include <optional>

#include "program/fuse/tiles.h"

namespace adjoint::native {

// A function as Extent::Whole has it (tile_code.h); nothing where too much does not repeat, or the
// elements do not fit into one vector.
std::optional<std::string> rolled_code(const TileLoops& f, const std::string& name);

}  // namespace adjoint::native
