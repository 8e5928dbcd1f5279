// What is done to a recorded program before it runs; pipeline.cpp has the order. Each pass takes the
// code and leaves it with the same meaning.
#pragma once
#include "program/program.h"

namespace adjoint {

// Views become aliases, each of memory rather than of another view: what an op made of them is
// known.
void make_aliases(Program& p);
// Memory that others may see or change: of outputs, of gradients, what is changed in place.
std::vector<bool> seen_roots(const Program& p);
// Instructions that compute the same from the same become one. Only values that nobody changes in
// place take part, and results that the caller sees stay apart from one another. By register: which
// one stands for it now.
std::vector<int> merge_common(Program& p);
// Instructions go whose results nobody reads and that do nothing else. Random numbers are drawn all
// the same: the generator has to advance as it would without the program.
void remove_dead(Program& p);
// Says of constants whose memory others get to see that each run needs a copy.
void mark_seen_constants(Program& p);
// Keeps the code as it is before it is fused.
void keep_unfused(Program& p);
// Registers are numbered anew, without those that nobody uses any more.
void renumber(Program& p);
// Notes with each instruction which registers nobody reads after it.
void find_last_reads(Program& p);

}  // namespace adjoint
