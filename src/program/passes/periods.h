// Where a list of instructions repeats itself: the same ops on operands that are the same in each
// period, or come from the same period, or from as many periods before.
#pragma once
#include <functional>
#include <vector>

#include "program/program.h"

namespace adjoint {

// How an operand of one period follows from that of the period before.
struct Relation {
  enum Kind : uint8_t {
    Fixed,    // the same register
    Moved,    // made by the same instruction of the period before
    Row,      // a part of `reg`, `step` bytes further on
    Stacked,  // made before this code, `step` registers further on
  } kind = Fixed;
  int reg = -1;
  int64_t step = 0;

  bool operator==(const Relation&) const = default;
};

// Instructions [first, last) are periods of `length`, the last one maybe cut short.
struct Period {
  size_t first = 0, last = 0, length = 0;
  // By instruction of the last whole period [last - length, last): of its reads, and of where an alias begins.
  std::vector<std::vector<Relation>> relations;

  size_t count() const { return length ? (last - first) / length : 0; }
};

class Periods {
 public:
  // `code` in the registers of `p`. `stackable`: whether a register that this code does not make may become a row of a tensor.
  // `loose`: numbers among the arguments of ops, and of constants, may be others in each period.
  Periods(const std::vector<Instruction>& code, const Program& p,
          std::function<bool(int)> stackable, bool loose);

  // The longest one of at least `least` periods; none has a length of 0.
  Period longest(size_t least) const;

  // -1 where no instruction makes it.
  int maker(int reg) const { return reg < static_cast<int>(maker_.size()) ? maker_[reg] : -1; }
  int slot(int reg) const { return slot_[reg]; }
  // Whether an instruction differs in its numbers from that which is `length` before it.
  bool varies(size_t k, size_t length) const;

 private:
  size_t token(const Instruction& i) const;
  std::vector<size_t> windows(size_t width) const;
  std::vector<size_t> lengths() const;
  bool relate(size_t k, size_t length, std::vector<Relation>& found) const;
  bool relate(int before, int now, size_t length, Relation& found) const;
  bool same_form(int a, int b) const;
  bool may_repeat(const Instruction& i) const;
  Period verified(size_t from, size_t to, size_t length) const;

  const std::vector<Instruction>& code_;
  const Program& p_;  // its registers
  std::function<bool(int)> stackable_;
  bool loose_;
  std::vector<int> maker_, slot_;  // by register: the instruction, and which of its writes
  std::vector<size_t> tokens_;     // by instruction; 0: it repeats nothing
};

}  // namespace adjoint
