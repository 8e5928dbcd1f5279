// Sums and products of small tensors as calls that a block makes (block.h): what is known before a
// run stands in a description, and a run needs pointers only.
#pragma once
#include <optional>
#include <variant>

#include "kernels/short_rows.h"
#include "program/program.h"

namespace adjoint {

// A sum: the description is a reduce::Problem without the memory.
void sum_loop(char* const* p, int64_t);
// A sum that kernels do at once: calls of one with the result, the operand, and what `about` says.
struct KernelSum {
  Loop loop;
  std::variant<SummedColumns, SummedRows> about;
  int64_t n = 0;      // of each call
  int64_t calls = 1;  // which are so many bytes apart:
  int64_t to = 0, from = 0;
};
std::optional<KernelSum> kernel_sum(const reduce::Problem& p);

struct SmallCall {
  Loop loop = nullptr;         // of the description, the result, the operands
  std::shared_ptr<void> what;  // the description
  std::vector<int> reads;      // the operands: of the instruction's reads
  int start = -1;  // a read that the result starts from, broadcast; a sum is added to it
};

// The call that computes what an instruction does; nothing for most.
std::optional<SmallCall> call_of(const Instruction& i, const std::vector<Register>& registers);

}  // namespace adjoint
