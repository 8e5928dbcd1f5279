// A program of a part whose stretches (stretch.h) are loops at once, so that no pass sees their
// instructions: what is done takes as long as the instructions outside of them. Its registers have
// numbers of their own. Read capture.h and long_loop.h first.
#include <algorithm>

#include "program/capture/capture.h"
#include "program/capture/long_loop.h"
#include "program/passes/pipeline.h"

namespace adjoint {
namespace {

// Whether it may be that all that an instruction does is to put values one after another. Once a loop
// has taken most of them, it still does, however few are left.
bool may_be_stack(const Instruction& i) {
  if (i.kind == Kind::Rows) return true;
  return i.kind == Kind::Apply && i.op->facts.part && i.reads.size() >= kLeastRuns;
}

void sort_out(std::vector<int>& regs) {
  std::ranges::sort(regs);
  regs.erase(std::unique(regs.begin(), regs.end()), regs.end());  // clang 14 has no ranges::unique
}

// The views of a part, each of what stands behind all of them.
class Views {
 public:
  Views(const Transcript& transcript, const std::deque<Pattern>& patterns,
        const std::vector<Register>& registers, const std::vector<Memory>& roots)
      : patterns_(patterns), registers_(registers), roots_(roots) {
    for (const Transcript::Part& q : transcript.parts()) add(q.code);
    add(transcript.rest());
  }
  // The instruction that makes a view; nothing for other registers.
  std::optional<Instruction> of(int reg) const {
    std::optional<Instruction> found = made_by(reg);
    if (!found || roots_[registers_[reg].root].changed) return {};
    while (auto base = made_by(found->reads[0].reg)) found->reads[0].reg = base->reads[0].reg;
    return found;
  }

 private:
  void add(const std::vector<Instruction>& code) {
    for (const Instruction& i : code) {
      if (i.kind != Kind::Alias && !is_view(registers_, i)) continue;
      for (int w : i.writes) {
        if (w < 0) continue;
        Instruction& view = single_[w];
        view.kind = Kind::Alias;
        view.line = i.line;
        view.reads.push_back({i.reads[0].reg});
        view.writes.push_back(w);
      }
    }
  }
  std::optional<Instruction> made_by(int reg) const {
    auto found = single_.find(reg);
    if (found != single_.end()) return found->second;
    for (const Pattern& p : patterns_) {
      if (auto view = p.view(reg)) return view;
    }
    return {};
  }

  const std::deque<Pattern>& patterns_;
  const std::vector<Register>& registers_;
  const std::vector<Memory>& roots_;
  std::unordered_map<int, Instruction> single_;
};

// What a stretch reads that it does not make, of its own part: false if that is more than single
// values and what rows are views of.
bool note_reads(const Stretch& s, int part, const Views& views, std::vector<int>& regs) {
  for (size_t n = 0; n < s.length; ++n) {
    for (size_t r = 0; r < s.period[n].reads.size(); ++r) {
      int reg = s.period[n].reads[r].reg, step = s.moves[n].reads[r];
      if (reg < part) continue;
      if (!step) regs.push_back(reg);
      if (step == s.step) {
        for (; reg < s.first; reg += step) regs.push_back(reg);
      } else if (step) {
        auto view = views.of(reg);
        if (!view) return false;
        regs.push_back(view->reads[0].reg);
      }
    }
  }
  return true;
}

// Rows are made where they are read.
void make_rows(Pattern& p, int part, const Views& views) {
  std::unordered_set<int> made;
  for (size_t n = 0; n < p.size(); ++n) {
    for (size_t r = 0; r < p.line(n).reads.size(); ++r) {
      int reg = p.line(n).reads[r].reg, step = p.moves(n).reads[r];
      if (reg < part || !step || step == p.stretch().step) continue;
      Instruction view = *views.of(reg);
      if (p.line(n).kind == Kind::Alias) {
        p.set_read(n, r, view.reads[0].reg, 0);
        continue;
      }
      if (!made.insert(reg).second) continue;
      Moves moves;
      moves.reads.push_back(0);
      moves.places.push_back(0);
      moves.writes.push_back(step);
      moves.roots.push_back(0);
      moves.offsets.push_back(p.moves(n).places[r]);
      p.insert(n++, std::move(view), std::move(moves));
    }
  }
}

// A view that was made already is not made again.
void drop_repeated(std::vector<Instruction>& code) {
  std::unordered_set<int> made;
  std::erase_if(code, [&](const Instruction& i) {
    if (i.kind == Kind::Alias && made.count(i.writes[0])) return true;
    for (int w : i.writes) made.insert(w);
    return false;
  });
}

// Views of earlier values are made again where they are first read, as what is kept stands behind them.
void make_views_again(std::vector<Instruction>& code, const Views& before, int part) {
  std::vector<Instruction> all;
  std::unordered_set<int> made;
  for (Instruction& i : code) {
    for (const Read& r : i.reads) {
      if (r.reg >= part || made.count(r.reg)) continue;
      made.insert(r.reg);
      if (auto view = before.of(r.reg)) all.push_back(std::move(*view));
    }
    bool again = i.kind == Kind::Alias && i.writes[0] < part && !made.insert(i.writes[0]).second;
    if (!again) all.push_back(std::move(i));
  }
  code = std::move(all);
}

}  // namespace

// Whether nothing is known of single values of a stretch that is not known of the others.
bool Capture::is_even(const Stretch& s) const {
  for (int reg = s.first; reg < s.end(); ++reg) {
    const Register& r = registers_[reg];
    if (r.data || (headers_[reg] && headers_[reg].has(kData)) || roots_[r.root].changed)
      return false;
  }
  for (size_t n = 0; n < s.length; ++n) {
    const Instruction& i = s.period[n];
    for (size_t w = 0; w < i.writes.size(); ++w) {
      if (i.writes[w] < 0 || !s.moves[n].roots[w]) continue;
      for (int reg = i.writes[w]; reg < s.end(); reg += s.step) {
        if (roots_[registers_[reg].root].external) return false;
      }
    }
  }
  return true;
}

bool Capture::take_short(Program& p, bool first) {
  Transcript& transcript = first && !passes_ ? code_ : first ? first_ : code_;
  transcript.close();
  auto even = [&](const Transcript& t) {
    return t.has_stretches() && std::ranges::all_of(t.parts(), [&](const Transcript::Part& q) {
             return is_even(q.then);
           });
  };
  if (!even(transcript) || (!first && !even(first_))) return false;
  // Other loops of a later part need the instructions of all.
  size_t left = 0;
  auto count = [&](const std::vector<Instruction>& some) {
    left += static_cast<size_t>(
        std::ranges::count_if(some, [&](const Instruction& i) { return !is_view(registers_, i); }));
  };
  for (const Transcript::Part& q : transcript.parts()) count(q.code);
  count(transcript.rest());
  if (!first && left > roll_from / 4) return false;
  std::vector<Instruction> code;
  if (!shorten(p, transcript, first, code)) return false;
  transcript = {};
  if (first) code_ = {};
  p.code = std::move(code);
  name_registers(p);
  auto take_inputs = [&](Program& made) {
    find_inputs(made, first);
    describe_inputs(made);
  };
  Loops inner;
  inner.form = [this](const TensorObject* t) { return descriptions_->geometry(t); };
  inner.wanted = first && !stacks_.empty();
  const std::vector<int> there;
  run_passes(p, {nullptr, there, take_inputs, inner});
  named_ = false;
  return true;
}

bool Capture::shorten(Program& p, const Transcript& transcript, bool first,
                      std::vector<Instruction>& code) {
  int part = first ? 0 : transcript.part();
  std::deque<Pattern> before;
  for (size_t k = 0; !first && k < first_.parts().size(); ++k)
    before.emplace_back(first_.parts()[k].then, registers_, roots_, std::vector<int>());
  // All but the stretches; the last are stacks that later parts read.
  std::vector<std::vector<Instruction>> others;
  for (const Transcript::Part& q : transcript.parts()) others.push_back(q.code);
  others.push_back(transcript.rest());
  for (auto& some : others) {
    for (Instruction& i : some) {
      for (Read& r : i.reads) {
        for (const Pattern& q : before) r.reg = q.equal(r.reg);
      }
    }
  }
  add_stacks(p);
  std::move(p.code.begin(), p.code.end(), std::back_inserter(others.back()));
  p.code.clear();
  std::vector<int> wanted, all;  // by single instructions; by those that may be stacks, too
  for (int r : p.outputs) {
    if (r >= 0) wanted.push_back(r);
  }
  for (const auto& some : others) {
    for (const Instruction& i : some) {
      for (const Read& r : i.reads) (may_be_stack(i) ? all : wanted).push_back(r.reg);
    }
  }
  std::deque<Pattern> own;
  for (const Transcript::Part& q : transcript.parts())
    own.emplace_back(q.then, registers_, roots_, std::vector<int>());
  const Views views(transcript, own, registers_, roots_);
  for (const Transcript::Part& q : transcript.parts()) {
    if (!note_reads(q.then, part, views, wanted)) return false;
  }
  sort_out(wanted);
  all.insert(all.end(), wanted.begin(), wanted.end());
  sort_out(all);
  Loops from = loops(first);
  std::unordered_set<const Instruction*> gone;
  std::vector<std::vector<Instruction>> made;
  for (size_t k = 0; k < transcript.parts().size(); ++k) {
    const Stretch& s = transcript.parts()[k].then;
    Pattern pattern(s, registers_, roots_, all);
    make_rows(pattern, part, views);
    // A result that is a view says so: it is made as it was.
    for (int r : p.outputs) {
      if (first && r >= 0 && pattern.view(r)) return false;
    }
    auto in_it = [&](int reg) { return s.has(reg); };
    std::vector<int> of_it;
    std::ranges::copy_if(wanted, std::back_inserter(of_it), in_it);
    std::vector<Instruction*> readers, ended;
    for (size_t n = k + 1; n < others.size(); ++n) {
      for (Instruction& i : others[n]) {
        if (gone.count(&i) || !may_be_stack(i)) continue;
        if (std::ranges::any_of(i.reads, [&](const Read& r) { return in_it(r.reg); }))
          readers.push_back(&i);
      }
    }
    LongLoop loop(pattern, registers_, roots_, from, part, before);
    if (!loop.make(of_it, readers, p, made.emplace_back(), ended)) return false;
    gone.insert(ended.begin(), ended.end());
  }
  for (size_t k = 0; k < others.size(); ++k) {
    for (Instruction& i : others[k]) {
      if (!gone.count(&i)) code.push_back(std::move(i));
    }
    if (k < made.size()) std::move(made[k].begin(), made[k].end(), std::back_inserter(code));
  }
  if (!first) make_views_again(code, Views(first_, before, registers_, roots_), part);
  drop_repeated(code);
  return true;
}

void Capture::name_registers(Program& p) {
  named_ = true;
  truth_.clear();
  numbers_.clear();
  root_numbers_.clear();
  for (int& r : p.inputs) r = number_of(p, r);
  for (Instruction& i : p.code) {
    for (Read& r : i.reads) r.reg = number_of(p, r.reg);
    for (int& w : i.writes) w = number_of(p, w);
  }
  for (int& r : p.outputs) r = number_of(p, r);
}

}  // namespace adjoint
