// Read recompute.h first.
#include "program/passes/recompute.h"

#include "program/capture/copying_ops.h"
#include "program/passes/simplify.h"

namespace adjoint {
namespace {

// Elements up to which any elementwise op is cheaper than one more tensor to keep (0.1 to 0.2 us).
constexpr int64_t kSmall = 128;
constexpr size_t kFewPieces = 8;

bool can_repeat(const Program& p, const Instruction& i) {
  auto unchanged = [&](int reg) { return !p.roots[p.registers[reg].root].changed; };
  if (i.kind == Kind::Alias) return unchanged(i.reads[0].reg);
  if (i.kind != Kind::Apply || i.draws() || i.writes.size() != 1 || i.writes[0] < 0) return false;
  // Copies of a few pieces (stack, roll) are part of the same loops.
  bool copies = i.pieces() && i.pieces()->pieces.size() <= kFewPieces;
  if (!i.op->is_elementwise && !i.op->operands && !copies) return false;
  for (const Read& r : i.reads) {
    if (!unchanged(r.reg)) return false;
  }
  return unchanged(i.writes[0]) &&
         (p.registers[i.writes[0]].geometry().numel <= kSmall || i.op->facts.cheap || copies);
}

}  // namespace

void recompute(Program& p, const std::vector<Instruction>& before, const std::vector<int>& kept) {
  std::vector<bool> needed(p.registers.size()), there(p.registers.size());
  for (const Instruction& i : p.code) {
    for (const Read& r : i.reads) needed[r.reg] = true;
  }
  for (int r : p.outputs) {
    if (r >= 0) needed[r] = true;
  }
  // What no repeated instruction makes is there if it is needed: it is kept.
  std::vector<bool> made(p.registers.size());
  for (const Instruction& i : before) {
    for (int w : i.writes) {
      if (w >= 0) made[w] = true;
    }
  }
  for (size_t r = 0; r < there.size(); ++r) there[r] = needed[r] && !made[r];
  for (int r : kept) there[r] = true;
  std::vector<Instruction> code;
  for (const Instruction& i : before) {
    bool again = can_repeat(p, i);
    for (const Read& r : i.reads) again = again && there[r.reg];
    for (int w : i.writes) {
      if (w >= 0) there[w] = there[w] || again || needed[w];
    }
    if (again) code.push_back(i);
  }
  code.insert(code.end(), std::make_move_iterator(p.code.begin()),
              std::make_move_iterator(p.code.end()));
  p.code = std::move(code);
  merge_common(p);
  remove_dead(p);
}

}  // namespace adjoint
