// Small work, one piece after another, as one instruction: tile loops of any shapes, copies and
// sums. At these sizes what is around a loop costs more than the loop, so a block has nothing
// around them: its values live in memory of its own, every pointer is set when the program is made,
// and a run allocates the results that others read, sets the pointers to them and to the operands
// from outside, and calls the loops in turn. The GIL is held all the while.
#pragma once
#include "../kernels/reduce.h"
#include "tiles.h"

namespace adjoint {

inline constexpr int64_t kBlockNumel = 8192;  // elements that are small

// One piece: loops over tiles, or a sum of memory at `from`.
struct Part {
  std::shared_ptr<TileLoops> tiles;
  std::shared_ptr<const reduce::Problem> sum;
  int from = -1, to = -1;
  int64_t offset = 0;
};

// The parts of an instruction, whose reads and writes are set: other registers are the block's own,
// of `bytes(register)`.
std::shared_ptr<FusedLoops> make_block(const std::vector<Part>& parts, const Instruction& i,
                                       const std::vector<Register>& registers);

}  // namespace adjoint
