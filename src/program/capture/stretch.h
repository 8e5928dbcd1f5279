// Code that repeats itself, by its first period: every later one is the same instruction by
// instruction, on registers that are as many further on each time. Read next: transcript.h, which finds
// it while it is recorded, and shorten.cpp, which makes loops of it.
#pragma once
#include <vector>

#include "program/program.h"

namespace adjoint {

// How registers of an instruction move from period to period.
struct Moves {
  Few<int, 3> reads;
  Few<int, 2> writes, roots;        // by result: its number, the memory behind it
  Few<int64_t, 2> offsets;          // and where in that memory it begins
  Few<int64_t, 3> places;           // where operands begin, if all are on one memory
  std::vector<const Value*> table;  // the arguments of an op by period, where they are not the same

  bool operator==(const Moves& o) const;
};

// Whether an op has given nothing but another header on the memory of its operand.
bool is_view(const std::vector<Register>& registers, const Instruction& i);

struct Stretch {
  size_t length = 0;        // of a period, in instructions
  size_t count = 0;         // of all instructions; whole periods once it is closed
  int first = 0, step = 0;  // where the registers of the first period begin, registers in one
  std::vector<Instruction> period;
  std::vector<Moves> moves;  // by instruction of the period

  int64_t periods() const { return static_cast<int64_t>(count / length); }
  int end() const { return first + static_cast<int>(periods()) * step; }
  bool has(int reg) const { return reg >= first && reg < end(); }
  // The k-th instruction of all.
  Instruction at(size_t k) const;
};

// How the second instruction follows from the first, one period before it; false if it does not
// repeat it. `part`: registers from here on are made in the same part of the recording.
bool follows(const std::vector<Register>& registers, const Instruction& a, const Instruction& b,
             int part, Moves& found);

}  // namespace adjoint
