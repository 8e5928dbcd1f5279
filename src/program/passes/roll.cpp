// Read roll.h first.
#include "program/passes/roll.h"

#include <algorithm>

#include "program/passes/rolled_loop.h"

namespace adjoint {

size_t roll_from = 10000;

RolledLoop::RolledLoop(Program& p, const Loops& from, const Periods& periods, const Period& period,
                       size_t target)
    : p_(p), from_(from), periods_(periods), period_(period) {
  size_t each = std::max<size_t>(1, target / period.length);
  each = std::max<size_t>(1, std::min(each, period.count() / (2 * kLeastRuns)));
  length_ = each * period.length;
  each_ = static_cast<int64_t>(each);
}

bool RolledLoop::make() {
  if (!choose()) return false;
  finish();
  return true;
}

bool RolledLoop::choose() {
  if (!choose_runs() || !find_inputs() || !fit_stacks() || !fit_changes()) return false;
  if (from_.before) fit_before();
  return true;
}

void RolledLoop::finish() {
  note_changes();
  find_outputs();
  make_body();
  replace();
}

namespace {

// Views of earlier values are made again where they are first read: what stands behind them is one
// value, and may be a stack.
void make_views_again(Program& p, const std::vector<Instruction>& before) {
  std::vector<int> alias(p.registers.size(), -1);
  for (size_t k = 0; k < before.size(); ++k) {
    if (before[k].kind == Kind::Alias) alias[before[k].writes[0]] = static_cast<int>(k);
  }
  std::vector<bool> made(p.registers.size());
  std::vector<std::pair<size_t, int>> views;  // before which instruction, and which one
  for (size_t k = 0; k < p.code.size(); ++k) {
    for (const Read& r : p.code[k].reads) {
      if (made[r.reg] || alias[r.reg] < 0) continue;
      made[r.reg] = true;
      if (!p.roots[p.registers[r.reg].root].changed) views.emplace_back(k, alias[r.reg]);
    }
    for (int w : p.code[k].writes) {
      if (w >= 0) made[w] = true;
    }
  }
  // From the end on, in the same list: a second one of millions of instructions would be most of the memory.
  size_t left = p.code.size(), to = left + views.size();
  p.code.resize(to);
  for (size_t n = views.size(); n-- > 0;) {
    while (left > views[n].first) p.code[--to] = std::move(p.code[--left]);
    p.code[--to] = before[static_cast<size_t>(views[n].second)];
  }
}

bool roll_once(Program& p, const Loops& from, size_t target) {
  auto stackable = [&](int reg) { return from.stack && is_stackable(p, reg); };
  for (bool loose : {false, true}) {
    Periods periods(p.code, p, stackable, loose);
    Period found = periods.longest(kLeastRuns);
    if (2 * (found.last - found.first) < p.code.size() && !loose) continue;
    if (found.last - found.first < std::min(roll_from / 4, p.code.size() / 2)) continue;
    if (RolledLoop(p, from, periods, found, target).make()) return true;
  }
  return false;
}

}  // namespace

bool is_rolled(const Program& p) {
  return std::ranges::any_of(p.code, [](const Instruction& i) { return i.kind == Kind::Repeat; });
}

bool roll(Program& p, const Loops& from) {
  if (p.code.size() < roll_from && !from.wanted) return false;
  if (from.before && from.stack) make_views_again(p, *from.before);
  size_t target = roll_from / 20;
  bool any = false;
  while ((p.code.size() >= roll_from / 4 || (from.wanted && !any)) && roll_once(p, from, target))
    any = true;
  return any;
}

}  // namespace adjoint
