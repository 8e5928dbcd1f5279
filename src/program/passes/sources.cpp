// Read sources.h first.
#include "program/passes/sources.h"

namespace adjoint {

Sources::Sources(const Program& p)
    : p_(p), made_by_(p.registers.size(), -1), elements_(p.registers.size()) {
  sources_.reserve(p.registers.size());
  for (size_t r = 0; r < p.registers.size(); ++r) sources_.push_back({static_cast<int>(r)});
  for (size_t k = 0; k < p.code.size(); ++k) {
    const Instruction& i = p.code[k];
    for (int w : i.writes) {
      if (w >= 0) made_by_[w] = static_cast<int>(k);
    }
    if (i.kind == Kind::Alias) see_through(i);
    if (i.element() && i.writes[0] >= 0 && !changed(i.writes[0]))
      elements_[i.writes[0]] = i.element();
  }
}

// What is viewed stands before its view.
void Sources::see_through(const Instruction& i) {
  Source s = sources_[i.reads[0].reg];
  s.offset = p_.registers[i.writes[0]].offset - p_.registers[s.reg].offset;
  s.same = s.offset == 0 && geometry(i.writes[0]) == geometry(s.reg);
  sources_[i.writes[0]] = s;
}

bool Sources::fills(const Instruction& i) {
  for (const Read& r : i.reads) {
    if (r.argument != 0) return false;  // a number that is a tensor
  }
  return i.op->facts.fills && i.writes.size() == 1 && i.writes[0] >= 0;
}

}  // namespace adjoint
