// Small work, one piece after another, as one instruction: tile loops of any shapes, copies and
// sums. At these sizes what is around a loop costs more than the loop, so a block has nothing
// around them: its values live in memory of its own, every pointer is set when the program is made,
// and a run allocates the results that others read, sets the pointers to them and to the operands
// from outside, and calls the loops in turn. The GIL is held all the while.
#pragma once
#include <functional>

#include "program/fuse/tiles.h"

namespace adjoint {

// One piece: loops over tiles, or a call (calls.h).
struct Part {
  struct From {
    int reg;
    int64_t offset;  // in bytes
  };
  std::shared_ptr<TileLoops> tiles;
  Loop loop = nullptr;
  std::shared_ptr<void> what;
  std::vector<From> from;
  int to = -1;

  // f(register, whether it is written)
  template <class F>
  void each_register(F&& f) const {
    for (const From& source : from) f(source.reg, false);
    if (loop) f(to, true);
    for (bool writes : {false, true}) {
      for (size_t k = 0; tiles && k < tiles->places.size(); ++k) {
        const TileLoops::Place& p = tiles->places[k];
        if (p.written == writes) f(p.reg, writes);
      }
    }
  }
};

// What a block is made of: a loop with pointers, of which some are set anew by each run.
struct BoundLoop {
  Loop loop;
  char** arguments;
  int64_t n;
};
struct Patch {
  uint32_t at;  // into the block's pointers
  int index;    // of the reads or writes
  bool written;
  int64_t offset;
};

// The parts of an instruction, whose reads and writes are set: other registers are the block's own,
// with room for `margin(register)` bytes before and after their elements.
std::shared_ptr<FusedLoops> make_block(const std::vector<Part>& parts, const Instruction& i,
                                       const std::vector<Register>& registers,
                                       const std::function<int64_t(int)>& margin);

}  // namespace adjoint
