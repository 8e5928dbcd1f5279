// Loops of long programs: where the code repeats itself (periods.h), one instruction runs one period
// many times (program/repeat.h), and all later passes see that period once.
//
// What the code after a loop, or the caller, reads of single runs is taken from it; a stack of a value of all runs is
// written by it, row by row. A backward part reads values of a forward loop in the same way: they are
// the rows of a stack, which becomes an output of the forward part. Several periods are one run where
// they are short, so that a run is worth its overhead.
#pragma once
#include <functional>

#include "program/program.h"

namespace adjoint {

// What loops ask of the recording that the code comes from. Bodies of loops have none.
struct Loops {
  bool wanted = false;  // a later part reads stacks: loops are looked for in short code, too
  // What the code before this has made, as aliases and ops; may be null.
  const std::vector<Instruction>* before = nullptr;
  std::function<const TensorGeometry*(const TensorObject*)> form;
  // The number of a new register.
  std::function<int(const TensorGeometry*)> add;
  // A register for the stack of `count` others, each `step` after the one before; null where there
  // is no code before this.
  std::function<std::pair<int, const TensorGeometry*>(int first, int step, int64_t count)> stack;
};

// Whether there were any.
bool roll(Program& p, const Loops& from);
bool is_rolled(const Program& p);

// Instructions from which on a program is looked through.
extern size_t roll_from;

}  // namespace adjoint
