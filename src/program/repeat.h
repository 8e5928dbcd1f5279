// Equal steps as one instruction: what a plain Python `for` becomes where its steps repeat
// (program/passes/roll.h finds them).
//
// An instruction of Kind::Repeat runs a body, which is a program, `count` times. To run it:
//
//     values[n] = reads[n]                         for the first `carries` inputs of the body
//     for run = 0 .. count - 1:
//       inputs  = values[n]                        the carry: what the run before has made
//               , row n of reads[carries + n]      its input's geometry, at offset + run * step bytes from where the read lies
//               , reads[n]                         all others are the same in each run
//       outputs = body(inputs)
//       values[n] = outputs[n]                     for the first `carries` outputs
//       `taken` of this run: writes[write] = outputs[output]
//       `written`, if first <= run < last: outputs[output] is copied to offset + run * step bytes of writes[write]
//
// Ops and their order are those of the loop that was recorded, so all bits are. What a body changes in place is memory that
// it has made in the same run, or that of a read which is the same in each (changed_reads). `stacks` are the tensors that rows are written to: new ones, or reads that nobody else has.
//
// An instruction of Kind::Rows makes a tensor of operands that are dense: operand n goes to places[n]. A first place of -1
// stands for the stack of a loop, whose memory is taken: the others are the rows that the loop did not write.
#pragma once
#include "program/program.h"

namespace adjoint {

struct Repeat {
  Program body;
  int64_t count = 0;
  size_t carries = 0;

  struct Row {
    int64_t offset, step;
  };
  std::vector<Row> rows;  // inputs of the body after the carries

  struct Taken {
    int64_t run;
    int output, write;
  };
  std::vector<Taken> taken;  // in the order of runs

  struct Written {
    int output, write;
    int64_t first, last;
    int64_t offset, step;
  };
  std::vector<Written> written;

  struct Stack {
    int write = -1;
    int read = -1;  // whose memory is taken
  };
  std::vector<Stack> stacks;
};

// Which reads of such an instruction have memory that it changes.
std::vector<size_t> changed_reads(const Instruction& i);
// Whether any instruction writes memory that exists outside its program.
bool changes_outside(const Program& p, const Instruction& i);

}  // namespace adjoint
