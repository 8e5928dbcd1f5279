// The memory order of a block's own values. Nobody else sees them, so it need not be that of eager
// execution: where the last axes are short (points in space), they are put outermost, and loops run
// along the long ones. Results are the same to the last bit: sums that would add in another order
// keep their operands where they were.
#pragma once
#include <deque>
#include <functional>
#include <span>

#include "program/fuse/calls.h"
#include "program/passes/sources.h"

namespace adjoint {

// Sums of contiguous rows in the order in which columns are summed: a call of a block (calls.h).
struct FoldedRows {
  int64_t rows = 0, length = 0, step = 0;  // bytes from row to row
  double divisor = 0;
  bool narrow = true;  // float32
};
void fold_rows(char* const* p, int64_t);
KernelSum kernel_sum(const FoldedRows& f);

class Layouts {
 public:
  Layouts(Program& p, Sources& sources) : p_(p), sources_(sources) {}

  // What runs in a block: an instruction, and its call if it is one (calls.h).
  struct Member {
    const Instruction* i;
    SmallCall* call;
    std::span<const Read> reads;
  };
  // `own(register)`: whether a register is the block's own. Geometries, sources and calls are
  // changed where another order is chosen.
  void choose(std::span<const Member> members, const std::function<bool(int)>& own);

 private:
  struct Axis {
    int64_t size, stride;  // in bytes
  };
  using AxisList = std::vector<Axis>;
  // A value with another order, and how it was.
  struct Moved {
    TensorGeometry to;
    Dims from;  // strides, in elements
  };
  struct Seen {
    Dims strides;  // in elements
    int64_t offset = 0;
  };

  void find_candidates(std::span<const Member> members, const std::function<bool(int)>& own);
  bool keeps(const Member& m) const;
  bool seen_in_new_order(int reg, Seen* seen) const;
  bool new_sum(const Member& m, SmallCall* call) const;
  bool split(const Moved& base, const int64_t* start, Axis axis, AxisList* parts) const;
  const Moved* moved(int reg) const { return at_[reg] < 0 ? nullptr : &moved_[at_[reg]]; }

  Program& p_;
  Sources& sources_;
  std::vector<Moved> moved_;
  std::vector<int> at_;               // by register: into moved_, or -1
  std::deque<TensorGeometry> forms_;  // of registers, once chosen
};

}  // namespace adjoint
