// Which periods a loop is made of, and what its runs read: values of the run before, rows, numbers of a table. Read rolled_loop.h first.
#include "program/passes/rolled_loop.h"

#include <algorithm>
#include <cstring>

namespace adjoint {

// Cuts where the fewest values are handed on.
size_t RolledLoop::best_cut() const {
  size_t d = period_.length, from = period_.last - 3 * d;
  std::vector<int> alive(d), begins(d);
  std::unordered_map<int, size_t> last;
  for (size_t k = from; k < period_.last; ++k) {
    for (const Read& r : p_.code[k].reads) {
      int m = periods_.maker(r.reg);
      if (m >= static_cast<int>(from) && m < static_cast<int>(from + d)) last[r.reg] = k;
    }
  }
  int all = 0;  // that are alive just before the first
  for (auto [reg, k] : last) {
    size_t m = static_cast<size_t>(periods_.maker(reg));
    ++begins[(m + 1) % d];
    --begins[(k + 1) % d];
    all += static_cast<int>(k / d - m / d);
  }
  for (size_t at = 0; at < d; ++at) alive[at] = all += at ? begins[at] : 0;
  size_t best = 0;
  for (size_t at = 1; at < d; ++at) {
    if (alive[at] < alive[best]) best = at;
  }
  return best;
}

bool RolledLoop::choose_runs() {
  size_t least = period_.first;
  for (const auto& of_one : period_.relations) {
    for (const Relation& r : of_one) {
      if (r.reg >= 0) least = std::max(least, static_cast<size_t>(periods_.maker(r.reg) + 1));
    }
  }
  size_t d = period_.length, cut = best_cut();
  start_ = least + (cut + d - least % d) % d;
  if (start_ >= period_.last) return false;
  count_ = static_cast<int64_t>((period_.last - start_) / length_);
  end_ = start_ + static_cast<size_t>(count_) * length_;
  return count_ >= static_cast<int64_t>(kLeastRuns);
}

bool RolledLoop::add_input(int reg, const Input& in) {
  auto [found, added] = inputs_.try_emplace(reg, in);
  if (added) order_.push_back(reg);
  const Input& was = found->second;
  return was.kind == in.kind && was.reg == in.reg && was.offset == in.offset && was.step == in.step;
}

bool RolledLoop::add_carry(int reg, int begins) {
  auto m = static_cast<size_t>(periods_.maker(reg));
  int at = periods_.maker(begins);
  if (m < start_ || at < 0) return false;
  auto slot = static_cast<size_t>(periods_.slot(reg));
  int next = p_.code[m + length_].writes[slot];
  if (!add_input(reg, {Relation::Moved, begins, next})) return false;
  // What the next run reads of runs before this one is handed on, too.
  if (m + length_ >= rep()) return true;
  return add_carry(next, p_.code[static_cast<size_t>(at) + length_].writes[slot]);
}

bool RolledLoop::find_inputs() {
  inputs_.clear();
  order_.clear();
  tables_.clear();
  constants_.clear();
  gone_.assign(length_, false);
  for (size_t k = rep(); k < end_; ++k) {
    const Instruction &i = p_.code[k], &begins = first(k);
    const std::vector<Relation>& related = relations(k);
    if (i.kind == Kind::Alias && related[1].step) {
      int64_t offset = p_.registers[begins.writes[0]].offset - p_.registers[i.reads[0].reg].offset;
      gone_[k - rep()] = true;
      if (!add_input(i.writes[0],
                     {Relation::Row, i.reads[0].reg, -1, offset, related[1].step * each_}))
        return false;
      continue;
    }
    if (varies(k) && !add_numbers(k)) return false;
    for (size_t n = 0; n < i.reads.size(); ++n) {
      if (!add_read(related[n], i.reads[n].reg, begins.reads[n].reg)) return false;
    }
  }
  return true;
}

bool RolledLoop::add_read(const Relation& r, int reg, int begins) {
  switch (r.kind) {
    case Relation::Fixed:
      return add_input(reg, {Relation::Fixed, reg});
    case Relation::Moved:
      return periods_.maker(reg) >= static_cast<int>(rep()) || add_carry(reg, begins);
    case Relation::Row:
      return add_input(
          reg, {Relation::Row, r.reg, -1, p_.registers[begins].offset - p_.registers[r.reg].offset,
                r.step * each_});
    case Relation::Stacked:
      return add_input(reg, {Relation::Stacked, begins, -1, 0, r.step * each_});
  }
  return false;
}

bool RolledLoop::varies(size_t k) const {
  bool any = false;
  for (size_t at = k; at >= start_ + length_ && !any; at -= length_)
    any = periods_.varies(at, length_);
  return any;
}

// Numbers that are others in each run: a table of arguments, or rows of a constant.
bool RolledLoop::add_numbers(size_t k) {
  Instruction& i = p_.code[k];
  if (i.kind != Kind::Constant) {
    auto table = std::make_shared<std::vector<const Value*>>();
    for (int64_t run = 0; run < count_; ++run)
      table->push_back(p_.code[start_ + static_cast<size_t>(run) * length_ + (k - rep())].args);
    tables_.emplace(k, std::move(table));
    return true;
  }
  const Tensor& one = i.more->constant;
  if (!from_.form || !one.contiguous() || one.pending()) return false;
  int64_t size = one.numel() * static_cast<int64_t>(one.itemsize());
  Dims shape;
  shape.push_back(count_);
  for (int64_t s : one.shape()) shape.push_back(s);
  Tensor all = empty(shape, one.dtype());
  for (int64_t run = 0; run < count_; ++run) {
    const Tensor& t =
        p_.code[start_ + static_cast<size_t>(run) * length_ + (k - rep())].more->constant;
    if (!t.contiguous() || t.pending()) return false;
    if (size) std::memcpy(all->data + run * size, t->data, static_cast<size_t>(size));
  }
  Instruction made;
  made.kind = Kind::Constant;
  made.line = i.line;
  made.with_more().constant = all;
  made.writes.push_back(add_register(from_.form(all.get())));
  gone_[k - rep()] = true;
  bool fits = add_input(i.writes[0], {Relation::Row, made.writes[0], -1, 0, size});
  constants_.push_back(std::move(made));
  return fits;
}

// Memory that a run changes is its own, or the same in all runs: then it is known who else sees it.
bool RolledLoop::fit_changes() {
  std::unordered_set<int> changed;
  for (size_t k = rep(); k < end_; ++k) {
    if (p_.code[k].kind == Kind::Change) changed.insert(root(p_.code[k].reads[0].reg));
  }
  for (int reg : order_) {
    const Input& in = inputs_[reg];
    if (in.kind == Relation::Stacked && changed.count(root(reg))) return false;
    if (in.kind != Relation::Moved || root(in.reg) == root(reg)) continue;
    if (changed.count(root(reg)) || changed.count(root(in.reg))) return false;
  }
  for (int reg : order_) made_.changes |= changed.count(root(reg)) > 0;
  return true;
}

}  // namespace adjoint
