// The passes that make a program of what was recorded, in order.
//
// A pass takes a program and leaves it with the same meaning. A new one is a function in a file of
// its own and a line in the list of pipeline.cpp; `adjoint.compiler.show_passes` prints what each
// leaves. Read next: simplify.h, recompute.h, program/fuse/fuse.h.
#pragma once
#include <functional>
#include <span>

#include "program/passes/roll.h"
#include "program/program.h"

namespace adjoint {

// What passes may ask of the recording.
struct Origin {
  // What was recorded before this part, as aliases and ops; null for the first part.
  const std::vector<Instruction>* before;
  // Registers of earlier parts that are kept in any case.
  const std::vector<int>& there;
  // Notes what the code reads and does not make itself: the inputs after those that are given.
  std::function<void(Program&)> find_inputs;
  const Loops& loops;
};

struct Pass {
  const char* name;
  void (*run)(Program& p, const Origin& from);
};
std::span<const Pass> passes();

void run_passes(Program& p, const Origin& from);

// Whether programs that this thread makes keep a listing of every stage.
extern thread_local bool t_keep_stages;

}  // namespace adjoint
