// Read long_loop.h first.
#include "program/capture/long_loop.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_set>

namespace adjoint {
namespace {

// Periods at either end that may be left out so that all others read one stretch; and of a part before,
// those around what is read.
constexpr size_t kMostTrimmed = 8, kAround = 2;
constexpr int kMostRegisters = 1 << 20;

// Whether a stretch has all that a register of it is a view of, view by view, and that moves. A view of
// the one that the period before made, and so on, goes back to what stands before all of them.
bool has_behind(const Pattern& p, int reg) {
  for (size_t views = 0; views <= p.size(); ++views) {
    Pattern::Place at;
    if (!p.find(reg, at)) return true;
    size_t line = at.line % p.size();
    if (p.line(line).kind != Kind::Alias || !p.moves(line).reads[0]) return true;
    reg = p.at(at.line).reads[0].reg;
    if (!p.stretch().has(reg)) return false;
  }
  return false;
}

}  // namespace

int Renumbered::to(int reg) {
  auto [found, added] = numbers_.try_emplace(reg, static_cast<int>(p.registers.size()));
  if (!added) return found->second;
  Register r = registers_[reg];
  auto [root, first] = root_numbers_.try_emplace(r.root, static_cast<int>(p.roots.size()));
  if (first) p.roots.push_back(roots_[r.root]);
  r.root = root->second;
  p.registers.push_back(r);
  truth_.resize(p.registers.size(), -1);
  truth_.back() = reg;
  return found->second;
}

void Renumbered::to(Instruction& i) {
  for (Read& r : i.reads) r.reg = to(r.reg);
  for (int& w : i.writes) w = w < 0 ? w : to(w);
}

int Renumbered::from(int reg, const std::function<int(const TensorGeometry*)>& add) {
  if (static_cast<size_t>(reg) >= truth_.size()) truth_.resize(static_cast<size_t>(reg) + 1, -1);
  if (truth_[reg] < 0) truth_[reg] = add(p.registers[reg].form);
  return truth_[reg];
}

void Renumbered::from(Instruction& i, const std::function<int(const TensorGeometry*)>& add) {
  for (Read& r : i.reads) r.reg = from(r.reg, add);
  for (int& w : i.writes) w = w < 0 ? w : from(w, add);
}

LongLoop::LongLoop(Pattern& pattern, const std::vector<Register>& registers,
                   const std::vector<Memory>& roots, const Loops& loops, int part,
                   const std::deque<Pattern>& before)
    : pattern_(pattern),
      registers_(registers),
      roots_(roots),
      loops_(loops),
      part_(part),
      before_(before),
      first_(0),
      last_(static_cast<size_t>(pattern.stretch().periods())) {}

// --- what was made before ------------------------------------------------------------------------
// Whether all that periods [first, last) read of an earlier part, and that moves, is made by one
// stretch, and what it is a view of, too: then all that the runs may compute again is.
bool LongLoop::is_before(const Pattern& p, size_t first, size_t last) const {
  for (size_t n = 0; n < pattern_.size(); ++n) {
    const Instruction& i = pattern_.line(n);
    for (size_t r = 0; r < i.reads.size(); ++r) {
      int step = pattern_.moves(n).reads[r];
      if (i.reads[r].reg >= part_ || !step) continue;
      for (size_t j : {first, last - 1}) {
        int reg = i.reads[r].reg + static_cast<int>(j) * step;
        if (!p.stretch().has(reg) || !has_behind(p, reg)) return false;
      }
    }
  }
  return true;
}

// Of values that are the same in all periods of the part before, one is read.
bool LongLoop::read_before() {
  auto last = static_cast<int>(last_) - 1;
  for (size_t n = 0; n < pattern_.size(); ++n) {
    const Instruction& i = pattern_.line(n);
    for (size_t r = 0; r < i.reads.size(); ++r) {
      int reg = i.reads[r].reg, step = pattern_.moves(n).reads[r];
      if (reg >= part_) continue;
      for (const Pattern& p : before_) {
        if (!p.is_same_in_all(reg) || !p.is_same_in_all(reg + last * step) ||
            step % p.stretch().step)
          continue;
        pattern_.set_read(n, r, p.equal(reg), 0);
      }
    }
  }
  return true;
}

void LongLoop::trim() {
  size_t periods = last_;
  for (const Pattern& p : before_) {
    for (size_t all = 0; all <= kMostTrimmed; ++all) {
      for (size_t first = 0; first <= all; ++first) {
        if (all >= periods || !is_before(p, first, periods - (all - first))) continue;
        forward_ = &p;
        first_ = first;
        last_ = periods - (all - first);
        return;
      }
    }
  }
}

// Views of earlier values are made again in each run: what stands behind them is kept anyway.
void LongLoop::make_views_again() {
  if (!forward_) return;
  const Stretch& s = forward_->stretch();
  std::unordered_map<int, int>
      read;  // by register of a period: how far away it is read; 0: in several places
  auto each_view = [&](auto&& f) {
    for (size_t n = 0; n < runs_->size(); ++n) {
      for (size_t r = 0; r < runs_->line(n).reads.size(); ++r) {
        int reg = runs_->line(n).reads[r].reg, step = runs_->moves(n).reads[r];
        auto j = static_cast<int>(first_);
        Pattern::Place at;
        if (reg >= part_ || std::abs(step) != s.step || !forward_->find(reg + j * step, at))
          continue;
        size_t line = at.line % forward_->size();
        if (forward_->line(line).kind == Kind::Alias && f(n, reg, step, line)) return true;
      }
    }
    return false;
  };
  auto slot = [&](int reg) { return ((reg - s.first) % s.step + s.step) % s.step; };
  std::unordered_set<int> twice, made;
  each_view([&](size_t, int reg, int, size_t) {
    auto [found, added] = read.try_emplace(slot(reg), reg);
    if (!added && found->second != reg) twice.insert(slot(reg));
    return false;
  });
  auto add = [&](size_t n, int reg, int step, size_t line) {
    if (twice.count(slot(reg)) || !made.insert(reg).second) return false;
    const Instruction& view = forward_->line(line);
    const Moves& by = forward_->moves(line);
    int period = (reg - view.writes[0]) / s.step, turn = step / s.step;
    Instruction i = view;
    i.reads[0].reg += period * by.reads[0];
    i.writes[0] = reg;
    Moves moves;
    moves.reads.push_back(turn * by.reads[0]);
    moves.places.push_back(0);
    moves.writes.push_back(step);
    moves.roots.push_back(turn * by.roots[0]);
    moves.offsets.push_back(turn * by.offsets[0]);
    runs_->insert(n, std::move(i), std::move(moves));
    return true;
  };
  while (each_view(add)) {
  }
}

bool LongLoop::fits(int lowest, int highest, int step) const {
  lowest += lowest_;
  highest += lowest_;
  if (lowest < 0 || highest >= part_ || step <= 0) return false;
  const TensorGeometry* form = registers_[lowest].form;
  if (!is_plain_row(*form)) return false;
  for (int reg = lowest; reg <= highest; reg += step) {
    if (registers_[reg].form != form || roots_[registers_[reg].root].external) return false;
  }
  return true;
}

// --- a few periods -------------------------------------------------------------------------------
// Numbers for what they read of the earlier part, in its order; then their code.
bool LongLoop::lay_out(size_t periods) {
  few_.emplace(registers_, roots_);
  few_->p.descriptions = like_->descriptions;
  few_->p.default_dtype = like_->default_dtype;
  window_.clear();
  int lowest = part_, highest = -1;
  for (size_t n = 0; n < runs_->size(); ++n) {
    const Instruction& i = runs_->line(n);
    for (size_t r = 0; r < i.reads.size(); ++r) {
      int reg = i.reads[r].reg, step = runs_->moves(n).reads[r];
      if (reg >= part_ || !step) continue;
      for (size_t j : {first_, first_ + periods - 1}) {
        lowest = std::min(lowest, reg + static_cast<int>(j) * step);
        highest = std::max(highest, reg + static_cast<int>(j) * step);
      }
    }
  }
  size_t from = 0, to = 0;  // periods of the part before
  if (forward_ && highest >= 0) {
    const Stretch& s = forward_->stretch();
    from = static_cast<size_t>((lowest - s.first) / s.step);
    to = static_cast<size_t>((highest - s.first) / s.step) + 1;
    from -= std::min(from, kAround);
    to = std::min(to + kAround, static_cast<size_t>(s.periods()));
    lowest = s.first + static_cast<int>(from) * s.step;
    highest = s.first + static_cast<int>(to) * s.step - 1;
  }
  if (highest - lowest > kMostRegisters) return false;
  lowest_ = highest < 0 ? 0 : lowest;
  for (int reg = lowest; reg <= highest; ++reg) few_->to(reg);
  earlier_ = static_cast<int>(few_->p.registers.size());
  for (size_t k = from * (forward_ ? forward_->size() : 0); forward_ && k < to * forward_->size();
       ++k)
    few_->to(window_.emplace_back(forward_->at(k)));
  size_t d = runs_->size();
  for (size_t k = first_ * d; k < (first_ + periods) * d; ++k)
    few_->to(few_->p.code.emplace_back(runs_->at(k)));
  return true;
}

bool LongLoop::try_with(size_t periods) {
  if (!lay_out(periods)) return false;
  elided_ = {};
  elided_.fits = [this](int lowest, int highest, int step) { return fits(lowest, highest, step); };
  few_loops_ = {};
  few_loops_.form = loops_.form;
  few_loops_.elided = &elided_;
  if (loops_.stack) {
    few_loops_.stack = [this](int first, int step, int64_t count) {
      auto [reg, form] = loops_.stack(first + lowest_, step, count);
      return std::pair(few_->to(reg), form);
    };
  }
  if (!window_.empty()) few_loops_.before = &window_;
  const Program& p = few_->p;
  // What none of the few makes is of the earlier part, or of a period that stands long before them.
  auto stackable = [this](int reg) {
    return loops_.stack && reg < earlier_ && is_stackable(few_->p, reg);
  };
  periods_.emplace(p.code, p, stackable, false);
  period_ = periods_->longest(kLeastRuns);
  size_t d = runs_->size();
  return period_.length && period_.length % d == 0 && period_.last == p.code.size();
}

bool LongLoop::make(const std::vector<int>& wanted, const std::vector<Instruction*>& readers,
                    const Program& like, std::vector<Instruction>& code,
                    std::vector<Instruction*>& ended) {
  like_ = &like;
  if (!pattern_.size() || roll_from < 20) return false;
  if (!before_.empty()) {
    read_before();
    trim();
  }
  runs_.emplace(pattern_);
  make_views_again();
  size_t d = runs_->size(), all = last_ - first_;
  // Runs of about as many instructions as in short code, eight of them and what may stand before.
  size_t target = roll_from / 20;
  size_t each = std::max<size_t>(1, std::min(target / d, all / (4 * kLeastRuns)));
  size_t periods = 2 * kLeastRuns * each + 12;
  for (int tries = 0;; ++tries) {
    if (tries == 3 || periods >= all || !try_with(periods)) return false;
    loop_.emplace(few_->p, few_loops_, *periods_, period_, target);
    size_t run = loop_->length() / d, over = (all - periods) % run;
    if (!over) {
      elided_.runs = static_cast<int64_t>((all - periods) / run);
      break;
    }
    periods += over;
  }
  more_ = (all - periods) * d;
  if (!loop_->choose()) return false;
  few_->p.code.resize(loop_->end());  // what stands after them does so in the whole
  size_t end = first_ * d + loop_->end() + more_;
  for (int reg : wanted) want(reg, true);
  for (size_t k = end; k < last_ * d; ++k) {
    for (const Read& r : runs_->at(k).reads) want(r.reg, true);
  }
  for (size_t k = last_ * pattern_.size(); k < pattern_.count(); ++k) {
    for (const Read& r : pattern_.at(k).reads) want(r.reg, true);
  }
  for (Instruction* i : readers) {
    for (const Read& r : i->reads) want(r.reg, false);
    few_->to(*i);
    elided_.readers.push_back(i);
  }
  loop_->finish();
  write(code, ended);
  return true;
}

// Notes which run makes a register, if one does.
void LongLoop::want(int reg, bool output) {
  Pattern::Place at;
  if (!runs_->find(reg, at)) return;
  size_t begin = first_ * runs_->size() + loop_->start();
  if (at.line < begin || at.line >= first_ * runs_->size() + loop_->end() + more_) return;
  size_t k = at.line - begin, run = loop_->length();
  int number = few_->to(reg);
  int last = few_->p.code[loop_->end() - run + k % run].writes[at.write];
  elided_.made[number] = {static_cast<int64_t>(k / run), last};
  if (output) few_->p.outputs.push_back(number);
}

void LongLoop::write(std::vector<Instruction>& code, std::vector<Instruction*>& ended) {
  size_t d = runs_->size();
  for (const Instruction& i : pattern_.before()) code.push_back(i);
  for (size_t k = 0; k < first_ * pattern_.size(); ++k) code.push_back(pattern_.at(k));
  size_t end = first_ * d + loop_->end() + more_;
  for (Instruction& i : few_->p.code) {
    few_->from(i, loops_.add);
    code.push_back(std::move(i));
  }
  for (size_t k = end; k < last_ * d; ++k) code.push_back(runs_->at(k));
  for (size_t k = last_ * pattern_.size(); k < pattern_.count(); ++k)
    code.push_back(pattern_.at(k));
  for (Instruction* i : elided_.readers) {
    if (loop_->has_ended(i)) {
      ended.push_back(i);
      continue;
    }
    few_->from(*i, loops_.add);
  }
}

}  // namespace adjoint
