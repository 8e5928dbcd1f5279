// What comes out of a loop: values of some run that are read later, and the rows of stacks. Read rolled_loop.h first.
#include "program/passes/rolled_loop.h"

#include <algorithm>

namespace adjoint {
namespace {

// Where the operands of an instruction go, if all it does is to put them one after another.
std::vector<int64_t> places_of(const Program& p, const Instruction& i) {
  if (i.kind == Kind::Rows) return i.more->places;
  if (i.kind != Kind::Apply || !i.op->facts.part || i.op->facts.zero_elsewhere ||
      i.writes.size() != 1 || i.writes[0] < 0 || i.reads.size() < kLeastRuns)
    return {};
  const TensorGeometry& out = p.registers[i.writes[0]].geometry();
  const TensorGeometry& row = p.registers[i.reads[0].reg].geometry();
  if (!out.contiguous || out.pending || !row.contiguous || row.pending || row.dtype != out.dtype)
    return {};
  GradMode off(false);
  // Headers whose memory nobody looks at.
  Tensor whole = empty(out.shape, out.dtype), operand = empty(row.shape, row.dtype);
  std::vector<int64_t> places;
  int64_t at = 0;
  for (const Read& r : i.reads) {
    if (p.registers[r.reg].form != &row) return {};
    // An operand lies there as a whole, once.
    bool again = false;
    Dims from(operand.ndim(), 0);
    Tensor part = i.op->facts.part({whole, i.args, operand, r.item, at, from, again});
    if (!part || again || !part.contiguous() || !(part.shape() == operand.shape())) return {};
    places.push_back(part->data - whole->data);
  }
  return places;
}

}  // namespace

// By memory: the last instruction that changes it.
void RolledLoop::note_changes() {
  for (size_t k = 0; k < p_.code.size(); ++k) {
    const Instruction& i = p_.code[k];
    if (i.kind == Kind::Change) changed_at_[root(i.reads[0].reg)] = k;
    for (size_t n = 0; i.changes && n < i.reads.size(); ++n) changed_at_[root(i.reads[n].reg)] = k;
  }
}

// Whether a value of some run is at its end what it will be.
bool RolledLoop::is_settled(int reg) const {
  auto found = changed_at_.find(root(reg));
  if (found == changed_at_.end()) return true;
  auto run = static_cast<size_t>(run_that_makes(reg));
  return found->second < start_ + (run + 1) * length_;
}

int RolledLoop::output(int reg) {
  auto [found, added] = output_at_.try_emplace(reg, static_cast<int>(outputs_.size()));
  if (added) outputs_.push_back(reg);
  return found->second;
}

void RolledLoop::take(int reg) {
  if (reg < 0 || !in_loop(reg) || !taken_.insert(reg).second) return;
  loop_->taken.push_back(
      {run_that_makes(reg), output(in_last(reg)), static_cast<int>(made_.writes.size())});
  made_.writes.push_back(reg);
}

void RolledLoop::find_outputs() {
  made_.kind = Kind::Repeat;
  made_.line = p_.code[start_].line;
  for (size_t n = 0; from_.elided && n < from_.elided->readers.size(); ++n) {
    Instruction* i = from_.elided->readers[n];
    if (stack_of(*i)) continue;
    for (const Read& r : i->reads) take(r.reg);
  }
  for (size_t k = end_; k < p_.code.size(); ++k) {
    if (!stack_of(p_.code[k])) {
      for (const Read& r : p_.code[k].reads) take(r.reg);
    }
  }
  for (int r : p_.outputs) take(r);
  std::ranges::sort(loop_->taken, {}, &Repeat::Taken::run);
}

// Lets the loop write the rows of a stack that are its own; whether there are any.
bool RolledLoop::stack_of(Instruction& i) {
  std::vector<int64_t> places = places_of(p_, i);
  if (places.empty()) return false;
  std::map<int, std::vector<std::pair<int64_t, size_t>>>
      rows;  // by register of the last run: run, read
  for (size_t n = 0; n < places.size(); ++n) {
    int reg = i.reads[n].reg;
    if (places[n] >= 0 && in_loop(reg) && is_plain_row(p_.registers[reg].geometry()) &&
        is_settled(reg))
      rows[in_last(reg)].emplace_back(run_that_makes(reg), n);
  }
  std::vector<bool> covered(places.size());
  std::vector<Repeat::Written> written;
  for (auto& [reg, of_one] : rows) {
    std::ranges::sort(of_one);
    if (of_one.size() < 2) continue;
    int64_t from = of_one[0].first, offset = places[of_one[0].second];
    int64_t step = places[of_one[1].second] - offset, run = from;
    bool even = true;
    for (auto& [at, n] : of_one) {
      even = even && at == run && places[n] == offset + (run - from) * step;
      ++run;
    }
    if (!even) continue;
    for (auto& [at, n] : of_one) covered[n] = true;
    written.push_back({output(reg), 0, from, run, offset - from * step, step});
  }
  if (written.empty()) return false;
  take_rows(i, places, covered, written);
  return true;
}

void RolledLoop::take_rows(Instruction& i, const std::vector<int64_t>& places,
                           const std::vector<bool>& covered,
                           std::vector<Repeat::Written>& written) {
  Few<Read, 3> reads;
  std::vector<int64_t> left;
  Repeat::Stack stack;
  Chain chain;
  for (size_t n = 0; n < places.size(); ++n) {
    if (covered[n]) continue;
    if (places[n] < 0) chain = chain_of(i.reads[n].reg);
    if (places[n] < 0 && !chain.later) continue;
    reads.push_back({i.reads[n].reg});
    left.push_back(places[n]);
    if (places[n] >= 0) take(i.reads[n].reg);
  }
  if (chain.base >= 0) {
    stack.read = static_cast<int>(bases_.size());  // among them, for now
    bases_.push_back(chain.base);
  }
  int made = i.writes[0];
  if (left.empty()) {
    ended_.insert(&i);
  } else {
    made = add_register(p_.registers[made].form);
    if (chain.later) {
      hand_on(chain, made);
    } else {
      reads.push_front({made});
      left.insert(left.begin(), -1);
    }
    set_rows(i, std::move(reads), std::move(left));
  }
  stack.write = static_cast<int>(made_.writes.size());
  made_.writes.push_back(made);
  for (Repeat::Written& w : written) {
    w.write = stack.write;
    loop_->written.push_back(w);
  }
  loop_->stacks.push_back(stack);
}

void RolledLoop::set_rows(Instruction& i, Few<Read, 3> reads, std::vector<int64_t> places) {
  Instruction rows;
  rows.kind = Kind::Rows;
  rows.line = i.line;
  rows.reads = std::move(reads);
  rows.writes = i.writes;
  rows.with_more().places = std::move(places);
  i = std::move(rows);
}

RolledLoop::Chain RolledLoop::chain_of(int base) {
  Chain found{base};
  while (found.base >= 0 && periods_.maker(found.base) >= static_cast<int>(end_)) {
    found.later = &p_.code[static_cast<size_t>(periods_.maker(found.base))];
    const auto& stacks = found.later->repeat()->stacks;
    for (found.at = 0; found.later->writes[stacks[found.at].write] != found.base;) ++found.at;
    int read = stacks[found.at].read;
    found.base = read < 0 ? -1 : found.later->reads[read].reg;
  }
  return found;
}

void RolledLoop::hand_on(const Chain& chain, int made) {
  Instruction& later = *chain.later;
  auto loop = std::make_shared<Repeat>(*later.repeat());
  Repeat::Stack& stack = loop->stacks[chain.at];
  if (stack.read < 0) {
    stack.read = static_cast<int>(later.reads.size());
    later.reads.push_back({made});
  } else {
    later.reads[stack.read].reg = made;
  }
  later.more->repeat = std::move(loop);
}

}  // namespace adjoint
