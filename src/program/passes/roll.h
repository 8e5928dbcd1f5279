// Loops of long programs: where the code repeats itself (periods.h), one instruction runs one period
// many times (program/repeat.h), and all later passes see that period once.
//
// What the code after a loop, or the caller, reads of single runs is taken from it; a stack of a value of all runs is
// written by it, row by row. A backward part reads values of a forward loop in the same way: they are
// the rows of a stack, which becomes an output of the forward part. Several periods are one run where
// they are short, so that a run is worth its overhead.
#pragma once
#include <functional>
#include <unordered_map>

#include "program/program.h"

namespace adjoint {

// Periods that stand after the last run of a loop, and that the code does not have: they are runs as
// well (program/capture/shorten.cpp).
struct Elided {
  int64_t runs = 0;
  // By register that they make: the run, and which register of the last run of the code it is.
  std::unordered_map<int, std::pair<int64_t, int>> made;
  // Whether registers from earlier code, each `step` after the one before, may be rows of one tensor.
  std::function<bool(int lowest, int highest, int step)> fits;
  // Instructions elsewhere that may do no more than to put values of runs one after another.
  std::vector<Instruction*> readers;
};

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
  const Elided* elided = nullptr;
};

// Whether there were any.
bool roll(Program& p, const Loops& from);
bool is_rolled(const Program& p);

// Instructions from which on a program is looked through.
extern size_t roll_from;

}  // namespace adjoint
