// Read stretch.h first.
#include "program/capture/stretch.h"

#include <algorithm>
#include <cstring>

namespace adjoint {
namespace {

template <class A, class B>
bool equal(const A& a, const B& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool same_constant(const Tensor& a, const Tensor& b) {
  return a.contiguous() && b.contiguous() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         !a.pending() && !b.pending() &&
         std::memcmp(a->data, b->data, static_cast<size_t>(a.numel()) * a.itemsize()) == 0;
}

// What few instructions have: the same follows from the same op on the same geometry, so it is
// enough to compare whether it is there.
bool same_particulars(const Register* result, const Instruction& a, const Instruction& b) {
  if (!a.more || !b.more) return !a.more == !b.more;
  const Particulars &x = *a.more, &y = *b.more;
  if (x.host || y.host || x.fused || y.fused || x.repeat || y.repeat || x.table || y.table)
    return false;
  if (bool(x.constant) != bool(y.constant) || bool(x.sum) != bool(y.sum) ||
      bool(x.pieces) != bool(y.pieces) || bool(x.element) != bool(y.element))
    return false;
  if (x.constant && !same_constant(x.constant, y.constant)) return false;
  if (!x.element || x.constant) return true;
  return result && std::memcmp(x.element, y.element, item_size(result->form->dtype)) == 0;
}

}  // namespace

bool Moves::operator==(const Moves& o) const {
  return equal(reads, o.reads) && equal(writes, o.writes) && equal(roots, o.roots) &&
         equal(offsets, o.offsets) && equal(places, o.places);
}

bool is_view(const std::vector<Register>& registers, const Instruction& i) {
  if (i.kind != Kind::Apply || i.reads.size() != 1 || i.draws()) return false;
  bool any = false;
  for (int w : i.writes) {
    if (w < 0) continue;
    if (registers[w].root != registers[i.reads[0].reg].root) return false;
    any = true;
  }
  return any;
}

Instruction Stretch::at(size_t k) const {
  size_t n = k % length, run = k / length;
  auto j = static_cast<int>(run);
  Instruction i = period[n];
  const Moves& by = moves[n];
  for (size_t r = 0; r < i.reads.size(); ++r) i.reads[r].reg += j * by.reads[r];
  for (size_t w = 0; w < i.writes.size(); ++w) {
    if (i.writes[w] >= 0) i.writes[w] += j * by.writes[w];
  }
  if (!by.table.empty()) i.args = by.table[run];
  if (i.more) i.more = std::make_shared<Particulars>(*i.more);
  return i;
}

bool follows(const std::vector<Register>& registers, const Instruction& a, const Instruction& b,
             int part, Moves& found) {
  if (a.kind != b.kind || a.op != b.op || a.kernel != b.kernel || a.changes || b.changes ||
      a.may_fail != b.may_fail || a.counted != b.counted || a.reads.size() != b.reads.size() ||
      a.writes.size() != b.writes.size() || !(a.line == b.line) || b.draws())
    return false;
  if (a.kind != Kind::Apply && a.kind != Kind::Alias && a.kind != Kind::Constant) return false;
  found.reads.clear();
  found.writes.clear();
  found.roots.clear();
  found.offsets.clear();
  found.places.clear();
  const Register* result = nullptr;
  bool moves = false;  // it begins elsewhere in its memory
  for (size_t n = 0; n < a.writes.size(); ++n) {
    int v = a.writes[n], w = b.writes[n];
    if ((v < 0) != (w < 0)) return false;
    if (w < 0) {
      found.writes.push_back(0);
      found.roots.push_back(0);
      found.offsets.push_back(0);
      continue;
    }
    const Register &r = registers[v], &s = registers[w];
    if (r.form != s.form) return false;
    result = &s;
    found.writes.push_back(w - v);
    found.roots.push_back(s.root - r.root);
    found.offsets.push_back(s.offset - r.offset);
    moves |= s.offset != r.offset;
  }
  for (size_t n = 0; n < a.reads.size(); ++n) {
    const Read &r = a.reads[n], &s = b.reads[n];
    const Register &x = registers[r.reg], &y = registers[s.reg];
    // What a later part reads of an earlier one moves in that one alone.
    if (r.argument != s.argument || r.item != s.item || (r.reg < part) != (s.reg < part) ||
        x.form != y.form)
      return false;
    found.reads.push_back(s.reg - r.reg);
    found.places.push_back(x.root == y.root ? y.offset - x.offset : 0);
  }
  bool view = a.kind == Kind::Alias || is_view(registers, b);
  if (moves && !view) return false;
  if (a.args != b.args && !view) return false;
  return same_particulars(result, a, b);
}

}  // namespace adjoint
