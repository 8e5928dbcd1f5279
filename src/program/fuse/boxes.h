// Values that are put together from boxes of others, and that loops read box by box: what is rolled,
// joined or padded, and the gradients of slices. Nobody makes them as long as loops over their own
// shape are all that reads them. Read tiles.h (Assembly) for how.
#pragma once
#include <vector>

#include "program/passes/sources.h"

namespace adjoint {

// A box of a value: memory of another one, or zeros.
struct SourceBox {
  int reg = -1;      // what is read there; -1: zeros
  Dims start, size;  // by axis of the value
  Dims from;         // where it starts in what is read, by axis of that
  Dims axes;         // by axis of the value: the axis of what is read, or -1
};
using SourceBoxes = std::vector<SourceBox>;

// By register: the boxes of those that need not be made.
class BoxedValues {
 public:
  BoxedValues(const Program& p, const Sources& sources);

  bool empty() const { return boxes_.empty(); }
  // Null for values that are made.
  const SourceBoxes* of(int reg) const { return at_[reg] < 0 ? nullptr : &boxes_[at_[reg]]; }
  // Whoever reads a register otherwise than box by box has it made.
  void make(int reg) { at_[reg] = -1; }
  // Whether its one box lies in memory as the whole value would, with zeros around it (padding.h).
  bool is_padded(int reg) const { return at_[reg] >= 0 && padded_[at_[reg]]; }
  void set_padded(int reg) { padded_[at_[reg]] = true; }

 private:
  std::vector<int> at_;
  std::vector<SourceBoxes> boxes_;
  std::vector<bool> padded_;
};

}  // namespace adjoint
