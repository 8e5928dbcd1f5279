// Elementwise ops as few instructions.
//
// Ops on one shape that depend on one another by nothing else form a group, wherever they stand in
// the program: a group is one instruction, whose loops run over tiles (tiles.h). Only what others
// read is written to memory. Results are those of the ops one by one, bit for bit: the kernels are
// the same, and 16-bit floats are rounded after each.
//
// Small groups, and small sums, products and copies, that follow one another are one instruction
// too (block.h). Read next: fuse.cpp, loop_parts.h, tiles.h, block.h.
#pragma once
#include "program/program.h"

namespace adjoint {

void fuse(Program& p);

}  // namespace adjoint
