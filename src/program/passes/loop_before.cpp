// What a loop reads of an earlier part of the recording: kept in stacks, or computed again. Read rolled_loop.h first.
#include "program/passes/rolled_loop.h"

#include <algorithm>

namespace adjoint {
namespace {

int64_t bytes_of(const TensorGeometry& g) {
  return g.numel * static_cast<int64_t>(item_size(g.dtype));
}

}  // namespace

// Values of an earlier part that each run may compute again instead of having them kept
// (recompute.h): the code that makes them repeats itself as this does. Of runs that read what was made before that
// began to repeat itself, one or two are left out.
void RolledLoop::fit_before() {
  Periods periods(*from_.before, p_, [](int) { return false; }, false);
  Period loop = periods.longest(kLeastRuns);
  if (!loop.length || find_window(periods, loop)) return;
  const size_t end = end_;
  for (int tries = 0; tries < 2 && count_ > static_cast<int64_t>(kLeastRuns); ++tries) {
    --count_;
    end_ -= length_;
    if (find_inputs() && fit_stacks() && fit_changes() && find_window(periods, loop)) return;
  }
  end_ = end;
  count_ = static_cast<int64_t>((end_ - start_) / length_);
  find_inputs();
}

bool RolledLoop::find_window(const Periods& periods, const Period& loop) {
  // Instructions that make what the last run reads, and how far those of the first are away.
  size_t lo = from_.before->size(), hi = 0;
  int64_t shift = 0;
  for (int reg : order_) {
    const Input& in = inputs_[reg];
    if (in.kind != Relation::Stacked) continue;
    int m = periods.maker(reg), of_first = periods.maker(in.reg);
    if (m < 0 || of_first < 0 || m == of_first) return false;
    if (shift && shift != of_first - m) return false;
    shift = of_first - m;
    lo = std::min(lo, static_cast<size_t>(m));
    hi = std::max(hi, static_cast<size_t>(m));
  }
  if (!shift || shift % static_cast<int64_t>(loop.length)) return false;
  auto first = static_cast<int64_t>(loop.first), last = static_cast<int64_t>(loop.last);
  for (int64_t moved : {int64_t{0}, shift}) {
    if (static_cast<int64_t>(lo) + moved < first || static_cast<int64_t>(hi) + moved >= last)
      return false;
  }
  // Runs are as far apart as this says only if it is the same distance each time.
  if (shift / (count_ - 1) * (count_ - 1) != shift ||
      shift / (count_ - 1) % static_cast<int64_t>(loop.length))
    return false;
  for (int reg : order_) {
    int m = periods.maker(reg);
    bool inside = m >= static_cast<int>(lo) && m <= static_cast<int>(hi);
    if (inputs_[reg].kind != Relation::Stacked && inside) return false;
  }
  const int64_t behind = shift / (count_ - 1) / static_cast<int64_t>(loop.length);
  window_.clear();
  for (size_t k = lo; k <= hi; ++k) {
    if (follows(periods, loop, k, behind)) window_.push_back(k);
  }
  return true;
}

// Whether an instruction of an earlier part reads what stands in its period, if it stands in that of the last run:
// a run is so many periods of that part behind the run before. A register that is the same in all runs may be
// another one in each of those periods, and the same in one of them by chance.
bool RolledLoop::follows(const Periods& periods, const Period& loop, size_t k,
                         int64_t behind) const {
  const std::vector<Instruction>& before = *from_.before;
  auto related = [&](size_t at) -> const std::vector<Relation>& {
    size_t d = loop.length;
    return loop.relations[(at % d + d - loop.last % d) % d];
  };
  auto moves = [&](size_t at) { return before[at].kind == Kind::Alias ? related(at)[1].step : 0; };
  if (moves(k)) return false;
  for (size_t n = 0; n < before[k].reads.size(); ++n) {
    const int reg = before[k].reads[n].reg;
    auto found = inputs_.find(reg);
    if (found == inputs_.end() || found->second.kind == Relation::Stacked) continue;
    const Relation& r = related(k)[n];
    const int m = periods.maker(reg);
    const int64_t step = r.kind == Relation::Row               ? r.step
                         : r.kind == Relation::Moved && m >= 0 ? moves(static_cast<size_t>(m))
                                                               : 0;
    const bool fixed = found->second.kind == Relation::Fixed && r.kind == Relation::Fixed;
    const bool row =
        found->second.kind == Relation::Row && step && found->second.step == -behind * step;
    if (!fixed && !row) return false;
  }
  return true;
}

std::map<std::pair<int, int>, RolledLoop::Range> RolledLoop::ranges() {
  std::map<std::pair<int, int>, Range> found;
  for (int reg : order_) {
    const Input& in = inputs_[reg];
    if (in.kind != Relation::Stacked) continue;
    int apart = static_cast<int>(std::abs(in.step / each_));
    int last = in.reg + static_cast<int>(in.step * (all_runs() - 1));
    int key = (reg % apart + apart) % apart;
    Range& range = found.try_emplace({apart, key}, Range{reg, reg, {}}).first->second;
    range.lowest = std::min({range.lowest, last, in.reg});
    range.highest = std::max({range.highest, last, in.reg});
    range.regs.push_back(reg);
  }
  return found;
}

bool RolledLoop::fit_stacks() {
  for (auto& [key, range] : ranges()) {
    if (from_.elided) {
      if (!from_.elided->fits(range.lowest, range.highest, key.first)) return false;
      continue;
    }
    for (int reg = range.lowest; reg <= range.highest; reg += key.first) {
      if (p_.registers[reg].form != p_.registers[range.lowest].form || periods_.maker(reg) >= 0 ||
          !is_stackable(p_, reg))
        return false;
    }
  }
  return true;
}

void RolledLoop::make_stacks() {
  for (auto& [key, range] : ranges()) {
    int apart = key.first;
    int64_t row = bytes_of(p_.registers[range.regs.front()].geometry());
    auto [stack, form] =
        from_.stack(range.lowest, apart, (range.highest - range.lowest) / apart + 1);
    place(stack, form);
    for (int reg : range.regs) {
      const Input in = inputs_[reg];
      inputs_[reg] = {Relation::Row, stack, -1, (in.reg - range.lowest) / apart * row,
                      in.step / apart * row};
    }
  }
}

}  // namespace adjoint
