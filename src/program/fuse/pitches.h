// The pitch of a block's own values: how far rows lie apart. Slices of a matrix have rows with gaps
// between them, and so may what is computed of them, since nobody else sees it: then loops run
// through rows and gaps as through one long row. What they compute in the gaps is nobody's.
#pragma once
#include <deque>
#include <functional>
#include <span>

#include "program/fuse/boxes.h"
#include "program/passes/sources.h"

namespace adjoint {

class Pitches {
 public:
  Pitches(Program& p, const Sources& sources, const BoxedValues& boxed)
      : p_(p), sources_(sources), boxed_(boxed) {}

  // Elementwise ops of one shape that run together; for others a shape of no axes.
  struct Group {
    Dims shape;
    std::vector<const Instruction*> members;
    int64_t pitch = 0;  // elements from row to row; 0: rows have no gaps
  };
  // Sets the pitches of groups, and of the registers that they write. `own(register)`: whether it is
  // the block's own; `needed(register)`: whether it is written at all.
  using Question = std::function<bool(int)>;
  void choose(std::vector<Group>& groups, const Question& own, const Question& needed);

 private:
  bool has_gaps(const std::vector<Group>& groups) const;
  bool note_view(int reg);
  void find_readers(const std::vector<Group>& groups);
  int64_t wanted_pitch(const Group& g) const;
  bool keeps(const Group& g, size_t number, const Question& own, const Question& needed) const;
  bool can_read(const Group& g, size_t number, int reg) const;

  Program& p_;
  const Sources& sources_;
  const BoxedValues& boxed_;
  std::vector<int> made_in_;          // by register: the group that makes it, or -1
  std::vector<bool> fixed_;           // by register: read otherwise than whole or in boxes
  std::vector<int> views_;            // registers that show all of another one
  std::vector<int64_t> box_pitch_;    // by register: of what it is a box of
  std::vector<int64_t> pitch_;        // by group
  std::deque<TensorGeometry> forms_;  // of registers, once chosen
};

}  // namespace adjoint
