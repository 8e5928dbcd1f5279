// Gradients of slices, read where the gradient of the slice lies: its rows are as far apart as those of
// the whole (pitches.h), so with zeros in the gaps, and before the first row and after the last, its memory
// is that of the padded value, which starts some elements before it.
#pragma once
#include "program/fuse/block.h"
#include "program/fuse/pitches.h"

namespace adjoint {

class Padding {
 public:
  Padding(const Program& p, const Sources& sources, BoxedValues& boxed)
      : p_(p), sources_(sources), boxed_(boxed) {}

  // Decides which boxed values the groups of a block read so; their pitches are set.
  void choose(const std::vector<Pitches::Group>& groups);

  // Bytes of zeros around the rows of a register; 0 for most.
  int64_t margin(int reg) const { return gaps_.empty() ? 0 : gaps_[reg]; }
  // The part that sets them, after those that make the register.
  void add_zeros(std::vector<Part>& parts, int reg) const;

 private:
  bool lies_as_whole(int reg, const std::vector<int64_t>& pitch) const;

  const Program& p_;
  const Sources& sources_;
  BoxedValues& boxed_;
  std::vector<int64_t> gaps_;  // by register, in bytes
};

}  // namespace adjoint
