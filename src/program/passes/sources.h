// What stands behind a register: the instruction that makes it, the memory that a view shows, the
// number that all its elements are.
#pragma once
#include "program/program.h"

namespace adjoint {

// A register as memory, or as the result of a group: what views of it are resolved to.
struct Source {
  int reg;
  int64_t offset = 0;  // in bytes
  bool same = true;    // the same elements in the same places
};

class Sources {
 public:
  explicit Sources(const Program& p);

  const TensorGeometry& geometry(int reg) const { return p_.registers[reg].geometry(); }
  bool changed(int reg) const { return p_.roots[p_.registers[reg].root].changed; }
  // The instruction, or -1 for an input.
  int made_by(int reg) const { return made_by_[reg]; }
  const Source& of(int reg) const { return sources_[reg]; }
  // The one value that all elements have, if it is known: ones_like and its kin.
  const char* uniform(int reg) const {
    const char* found = elements_[of(reg).reg];
    return found && geometry(of(reg).reg).dtype == geometry(reg).dtype ? found : nullptr;
  }

  // A view begins elsewhere: what it views lies in another order now.
  void move(int reg, int64_t offset) { sources_[reg].offset = offset; }

  // An op that fills its result with one number.
  static bool fills(const Instruction& i);

 private:
  void see_through(const Instruction& alias);

  const Program& p_;
  std::vector<int> made_by_;           // register -> instruction
  std::vector<Source> sources_;        // by register
  std::vector<const char*> elements_;  // by register: of a constant of one element, or filled
};

}  // namespace adjoint
