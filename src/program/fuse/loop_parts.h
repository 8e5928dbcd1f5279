// The loops of instructions, as parts of what is run (block.h, tiles.h).
#pragma once
#include "program/fuse/block.h"
#include "program/fuse/boxes.h"
#include "program/fuse/calls.h"
#include "program/capture/copying_ops.h"
#include "program/passes/sources.h"

namespace adjoint {

// Bytes from the first element of a tensor to the end of its last.
int64_t extent(const TensorGeometry& g);
// Integers that may be divided by zero, which is an error.
bool divides_integers(const KernelCall& s);
// The sum of everything that a large group makes, which it can take as it goes.
bool sums_a_group(const Instruction& i, const Sources& sources);
// The product of a column and a row, whose elements have one dtype.
bool is_outer(const Instruction& i, const Sources& sources);

// Register -> value of a TileBuilder, where it has one, or the boxes that it is read by.
class Values {
 public:
  Values() = default;
  Values(size_t registers, const BoxedValues& boxed) : values_(registers, -1), boxed_(&boxed) {}
  int of(int reg) const { return values_.empty() ? -1 : values_[reg]; }
  void set(int reg, int value) { values_[reg] = value; }
  const SourceBoxes* boxes(int reg) const { return boxed_ ? boxed_->of(reg) : nullptr; }
  bool is_padded(int reg) const { return boxed_->is_padded(reg); }

 private:
  std::vector<int> values_;
  const BoxedValues* boxed_ = nullptr;
};

// Elementwise ops of one shape, and sums of what they make: `members` of the code. Results that are `needed` by others are
// written. `values` is empty, before and after. `pitch`: see pitches.h.
Part group_part(const std::vector<int>& members, const Program& p, const Sources& sources,
                const std::vector<bool>& needed, Values& values, int64_t pitch = 0);

// One instruction that has loops of its own.
void add_fill(std::vector<Part>& parts, int reg, const char* element, const Sources& sources);
void add_pieces(std::vector<Part>& parts, const Instruction& i, const Sources& sources);
void add_call(std::vector<Part>& parts, const Instruction& i, const SmallCall& call,
              const Sources& sources);
void add_outer(std::vector<Part>& parts, const Instruction& i, const Sources& sources);

}  // namespace adjoint
