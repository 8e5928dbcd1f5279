// Read sources.h first.
#include "program/passes/sources.h"

namespace adjoint {

Sources::Sources(const Program& p, const Tensors& headers)
    : p_(p), headers_(headers), made_by_(p.registers.size(), -1), alias_(p.registers.size(), -1) {
  for (size_t k = 0; k < p.code.size(); ++k) {
    const Instruction& i = p.code[k];
    for (int w : i.writes) {
      if (w >= 0) made_by_[w] = static_cast<int>(k);
    }
    if (i.kind == Kind::Alias) alias_[i.writes[0]] = static_cast<int>(k);
  }
}

Source Sources::of(int reg) const {
  Source s{reg};
  while (alias_[s.reg] >= 0) {
    const Instruction& i = p_.code[alias_[s.reg]];
    s.offset += i.alias_offset;
    s.reg = i.reads[0].reg;
  }
  const Geometry &g = geometry(reg), &of = geometry(s.reg);
  s.same = s.offset == 0 && g.dtype == of.dtype && g.shape == of.shape && g.strides == of.strides;
  return s;
}

const char* Sources::uniform(const Source& s, int reg) const {
  int k = made_by_[s.reg];
  if (k < 0 || !known(s.reg) || geometry(s.reg).dtype != geometry(reg).dtype) return nullptr;
  const Instruction& i = p_.code[k];
  bool one = i.kind == Kind::Constant && geometry(s.reg).numel() == 1;
  if (!one && !(i.kind == Kind::Apply && fills(i))) return nullptr;
  return element(s.reg);
}

bool Sources::fills(const Instruction& i) {
  for (const Read& r : i.reads) {
    if (r.argument != 0) return false;  // a number that is a tensor
  }
  return i.op->facts.fills && i.writes.size() == 1 && i.writes[0] >= 0;
}

}  // namespace adjoint
