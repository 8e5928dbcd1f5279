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
  // `headers` are the tensors that the registers had when they were recorded.
  Sources(const Program& p, const Tensors& headers);

  const Geometry& geometry(int reg) const { return p_.registers[reg].geometry(); }
  bool changed(int reg) const { return p_.roots[p_.registers[reg].root].changed; }
  // The instruction, or -1 for an input.
  int made_by(int reg) const { return made_by_[reg]; }
  const Source& of(int reg) const { return sources_[reg]; }
  // Whether the recorded tensor still has the elements that it was made with.
  bool known(int reg) const { return !changed(reg) && geometry(reg).numel > 0; }
  // The first of those.
  const char* element(int reg) const { return headers_[reg]->data; }
  // The one value that all elements have, if they are known to: ones_like and its kin.
  const char* uniform(int reg) const;

  // An op that fills its result with one number.
  static bool fills(const Instruction& i);

 private:
  void see_through(const Instruction& alias);

  const Program& p_;
  const Tensors& headers_;
  std::vector<int> made_by_;     // register -> instruction
  std::vector<Source> sources_;  // by register
  std::vector<bool> uniform_;    // by register: a constant of one element, or filled
};

}  // namespace adjoint
