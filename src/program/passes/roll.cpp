// Read roll.h first.
#include "program/passes/roll.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "program/fuse/fuse.h"
#include "program/passes/fold.h"
#include "program/passes/periods.h"
#include "program/passes/recompute.h"
#include "program/passes/simplify.h"
#include "program/repeat.h"

namespace adjoint {

size_t roll_from = 10000;

namespace {

constexpr size_t kLeast = 4;  // runs of a loop

bool is_plain_row(const TensorGeometry& g) { return g.dense && !g.pending; }

int64_t bytes_of(const TensorGeometry& g) {
  return g.numel * static_cast<int64_t>(item_size(g.dtype));
}

bool is_stackable(const Program& p, int reg) {
  const Memory& memory = p.roots[p.registers[reg].root];
  return !memory.external && is_plain_row(p.registers[reg].geometry());
}

// Where the operands of an instruction go, if all it does is to put them one after another.
std::vector<int64_t> places_of(const Program& p, const Instruction& i) {
  if (i.kind == Kind::Rows) return i.more->places;
  if (i.kind != Kind::Apply || !i.op->facts.part || i.op->facts.zero_elsewhere ||
      i.writes.size() != 1 || i.writes[0] < 0 || i.reads.size() < kLeast)
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

// An input of a body, by the register that the last run reads.
struct Input {
  Relation::Kind kind = Relation::Fixed;
  int reg =
      -1;  // Moved: what the first run reads; Row: the base; Stacked: what the first run reads
  int next = -1;       // Moved: what the next run reads
  int64_t offset = 0;  // Row: in the first run
  int64_t step = 0;    // Row, Stacked: from run to run
};

class Loop {
 public:
  Loop(Program& p, const Loops& from, const Periods& periods, const Period& period, size_t target)
      : p_(p), from_(from), periods_(periods), period_(period) {
    size_t each = std::max<size_t>(1, target / period.length);
    each = std::max<size_t>(1, std::min(each, period.count() / (2 * kLeast)));
    length_ = each * period.length;
    each_ = static_cast<int64_t>(each);
  }

  // Puts the loop in place of its instructions; false if it cannot be one.
  bool make() {
    if (!choose_runs() || !find_inputs() || !fit_stacks() || !fit_changes()) return false;
    if (from_.before) fit_before();
    note_changes();
    find_outputs();
    make_body();
    replace();
    return true;
  }

 private:
  const std::vector<Relation>& relations(size_t k) const {
    size_t d = period_.length;
    return period_.relations[(k % d + d - period_.last % d) % d];
  }
  size_t rep() const { return end_ - length_; }  // where the last run begins
  int64_t run_of(size_t k) const { return static_cast<int64_t>((k - start_) / length_); }
  // The same instruction in the first run, of one in the last.
  const Instruction& first(size_t k) const {
    return p_.code[k - static_cast<size_t>(count_ - 1) * length_];
  }
  bool in_loop(int reg) const {
    int m = periods_.maker(reg);
    return m >= static_cast<int>(start_) && m < static_cast<int>(end_);
  }
  // The register of the last run that stands where this one does in its own.
  int in_last(int reg) const {
    auto m = static_cast<size_t>(periods_.maker(reg));
    size_t k = m + static_cast<size_t>(count_ - 1 - run_of(m)) * length_;
    return p_.code[k].writes[static_cast<size_t>(periods_.slot(reg))];
  }

  // Cuts where the fewest values are handed on.
  size_t best_cut() const {
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

  bool choose_runs() {
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
    return count_ >= static_cast<int64_t>(kLeast);
  }

  // --- what goes in
  bool add_input(int reg, const Input& in) {
    auto [found, added] = inputs_.try_emplace(reg, in);
    if (added) order_.push_back(reg);
    const Input& was = found->second;
    return was.kind == in.kind && was.reg == in.reg && was.offset == in.offset &&
           was.step == in.step;
  }

  bool add_carry(int reg, int begins) {
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

  bool find_inputs() {
    inputs_.clear();
    order_.clear();
    tables_.clear();
    constants_.clear();
    gone_.assign(length_, false);
    for (size_t k = rep(); k < end_; ++k) {
      const Instruction &i = p_.code[k], &begins = first(k);
      const std::vector<Relation>& related = relations(k);
      if (i.kind == Kind::Alias && related[1].step) {
        int64_t offset =
            p_.registers[begins.writes[0]].offset - p_.registers[i.reads[0].reg].offset;
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

  bool add_read(const Relation& r, int reg, int begins) {
    switch (r.kind) {
      case Relation::Fixed:
        return add_input(reg, {Relation::Fixed, reg});
      case Relation::Moved:
        return periods_.maker(reg) >= static_cast<int>(rep()) || add_carry(reg, begins);
      case Relation::Row:
        return add_input(
            reg, {Relation::Row, r.reg, -1,
                  p_.registers[begins].offset - p_.registers[r.reg].offset, r.step * each_});
      case Relation::Stacked:
        return add_input(reg, {Relation::Stacked, begins, -1, 0, r.step * each_});
    }
    return false;
  }

  bool varies(size_t k) const {
    bool any = false;
    for (size_t at = k; at >= start_ + length_ && !any; at -= length_)
      any = periods_.varies(at, length_);
    return any;
  }

  // Numbers that are others in each run: a table of arguments, or rows of a constant.
  bool add_numbers(size_t k) {
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

  // --- what is changed in place
  int root(int reg) const { return p_.registers[reg].root; }

  // Memory that a run changes is its own, or the same in all runs: then it is known who else sees it.
  bool fit_changes() {
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

  // By memory: the last instruction that changes it.
  void note_changes() {
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      if (i.kind == Kind::Change) changed_at_[root(i.reads[0].reg)] = k;
      for (size_t n = 0; i.changes && n < i.reads.size(); ++n)
        changed_at_[root(i.reads[n].reg)] = k;
    }
  }
  // Whether a value of some run is at its end what it will be.
  bool is_settled(int reg) const {
    auto found = changed_at_.find(root(reg));
    if (found == changed_at_.end()) return true;
    auto run = static_cast<size_t>(run_of(static_cast<size_t>(periods_.maker(reg))));
    return found->second < start_ + (run + 1) * length_;
  }

  // --- what comes out
  int output(int reg) {
    auto [found, added] = output_at_.try_emplace(reg, static_cast<int>(outputs_.size()));
    if (added) outputs_.push_back(reg);
    return found->second;
  }

  void take(int reg) {
    if (reg < 0 || !in_loop(reg) || !taken_.insert(reg).second) return;
    loop_->taken.push_back({run_of(static_cast<size_t>(periods_.maker(reg))), output(in_last(reg)),
                            static_cast<int>(made_.writes.size())});
    made_.writes.push_back(reg);
  }

  void find_outputs() {
    made_.kind = Kind::Repeat;
    made_.line = p_.code[start_].line;
    for (size_t k = end_; k < p_.code.size(); ++k) {
      if (!stack_of(p_.code[k])) {
        for (const Read& r : p_.code[k].reads) take(r.reg);
      }
    }
    for (int r : p_.outputs) take(r);
    std::ranges::sort(loop_->taken, {}, &Repeat::Taken::run);
  }

  // Lets the loop write the rows of a stack that are its own; whether there are any.
  bool stack_of(Instruction& i) {
    std::vector<int64_t> places = places_of(p_, i);
    if (places.empty()) return false;
    std::map<int, std::vector<std::pair<int64_t, size_t>>>
        rows;  // by register of the last run: run, read
    for (size_t n = 0; n < places.size(); ++n) {
      int reg = i.reads[n].reg;
      if (places[n] >= 0 && in_loop(reg) && is_plain_row(p_.registers[reg].geometry()) &&
          is_settled(reg))
        rows[in_last(reg)].emplace_back(run_of(static_cast<size_t>(periods_.maker(reg))), n);
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

  void take_rows(Instruction& i, const std::vector<int64_t>& places,
                 const std::vector<bool>& covered, std::vector<Repeat::Written>& written) {
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

  static void set_rows(Instruction& i, Few<Read, 3> reads, std::vector<int64_t> places) {
    Instruction rows;
    rows.kind = Kind::Rows;
    rows.line = i.line;
    rows.reads = std::move(reads);
    rows.writes = i.writes;
    rows.with_more().places = std::move(places);
    i = std::move(rows);
  }

  // A stack goes from loop to loop, in the order of the code: what this one takes, and the next
  // loop, if there is one, which takes it from this.
  struct Chain {
    int base = -1;
    Instruction* later = nullptr;
    size_t at = 0;  // of the stacks of that loop
  };
  Chain chain_of(int base) {
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
  static void hand_on(const Chain& chain, int made) {
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

  // A register on memory of its own.
  int add_register(const TensorGeometry* form) {
    return place(from_.add ? from_.add(form) : static_cast<int>(p_.registers.size()), form);
  }
  int place(int made, const TensorGeometry* form) {
    Register r{form, 0, static_cast<int>(p_.roots.size())};
    p_.roots.push_back({});
    if (p_.registers.size() <= static_cast<size_t>(made))
      p_.registers.resize(static_cast<size_t>(made) + 1, r);
    p_.registers[made] = r;
    return made;
  }

  // --- the body
  // The code of the last run, in the registers of the whole.
  void make_body() {
    Program& body = loop_->body;
    body.descriptions = p_.descriptions;
    body.default_dtype = p_.default_dtype;
    copy_numbers();
    for (size_t k = rep(); k < end_; ++k) {
      if (gone_[k - rep()]) continue;
      Instruction& i = body.code.emplace_back(p_.code[k]);
      if (i.more) i.more = std::make_shared<Particulars>(*i.more);
      auto table = tables_.find(k);
      if (table == tables_.end()) continue;
      i.kernel = nullptr;
      i.more = std::make_shared<Particulars>();
      i.more->table = table->second;
    }
    lend_registers();
    prune();
    if (window_.last > window_.first) {
      const std::vector<Instruction>& before = *from_.before;
      std::vector<Instruction> code(before.begin() + static_cast<std::ptrdiff_t>(window_.first),
                                    before.begin() + static_cast<std::ptrdiff_t>(window_.last));
      recompute(body, code, {});
      prune();
    }
    return_registers();
    make_stacks();
    connect();
    adopt_registers();
    finish_body();
  }

  // The body has the registers of the whole, which are many, until it has its own.
  void lend_registers() {
    for (int reg : order_) {
      if (!std::exchange(p_.roots[root(reg)].external, true)) lent_.push_back(root(reg));
    }
    std::swap(loop_->body.registers, p_.registers);
    std::swap(loop_->body.roots, p_.roots);
  }
  void return_registers() {
    std::swap(loop_->body.registers, p_.registers);
    std::swap(loop_->body.roots, p_.roots);
    for (int r : lent_) p_.roots[r].external = false;
  }

  // Gives the body registers of its own.
  void adopt_registers() {
    Program& body = loop_->body;
    std::unordered_map<int, int> to, roots;
    auto number = [&](int& reg) {
      if (reg < 0) return;
      auto [found, added] = to.try_emplace(reg, static_cast<int>(body.registers.size()));
      if (added) {
        Register r = p_.registers[reg];
        auto [at, first] = roots.try_emplace(r.root, static_cast<int>(body.roots.size()));
        if (first) body.roots.push_back(p_.roots[r.root]);
        r.root = at->second;
        body.registers.push_back(r);
      }
      reg = found->second;
    };
    for (int& r : body.inputs) number(r);
    for (int r : body.inputs) body.roots[body.registers[r].root].external = true;
    for (Instruction& i : body.code) {
      for (Read& r : i.reads) number(r.reg);
      for (int& w : i.writes) number(w);
    }
    for (int& r : body.outputs) number(r);
  }

  // Single numbers are part of the body rather than memory that it reads.
  void copy_numbers() {
    std::erase_if(order_, [&](int reg) {
      int m = periods_.maker(reg);
      if (inputs_[reg].kind != Relation::Fixed || m < 0 || p_.code[m].kind != Kind::Constant ||
          !p_.code[m].element() || std::ranges::find(outputs_, reg) != outputs_.end())
        return false;
      Instruction& i = loop_->body.code.emplace_back(p_.code[m]);
      i.more = std::make_shared<Particulars>(*i.more);
      return true;
    });
  }

  // Drops what no run needs: inputs that are not read, code.
  void prune() {
    Program& body = loop_->body;
    for (size_t before = order_.size() + 1; order_.size() < before;) {
      before = order_.size();
      set_outputs();
      merge_common(body);
      remove_dead(body);
      std::vector<bool> read(body.registers.size());
      for (const Instruction& i : body.code) {
        for (const Read& r : i.reads) read[r.reg] = true;
      }
      for (int r : outputs_) read[r] = true;
      // A carry that goes further back gets its values from another one.
      for (bool more = true; std::exchange(more, false);) {
        for (int reg : order_) {
          const Input& in = inputs_[reg];
          if (in.kind != Relation::Moved || !read[reg] || read[in.next]) continue;
          read[in.next] = more = true;
        }
      }
      // What is computed again is no input any more.
      for (const Instruction& i : body.code) {
        for (int w : i.writes) {
          if (w >= 0) read[w] = false;
        }
      }
      std::erase_if(order_, [&](int reg) { return !read[reg]; });
    }
  }

  void set_outputs() {
    Program& body = loop_->body;
    body.outputs.clear();
    for (int reg : order_) {
      if (inputs_[reg].kind == Relation::Moved) body.outputs.push_back(inputs_[reg].next);
    }
    body.outputs.insert(body.outputs.end(), outputs_.begin(), outputs_.end());
  }

  // --- what was made before
  // Values of an earlier part that each run may compute again instead of having them kept
  // (recompute.h): the code that makes them repeats itself as this does. Of runs that read what was made before that
  // began to repeat itself, one or two are left out.
  void fit_before() {
    Periods periods(*from_.before, p_, [](int) { return false; }, false);
    Period loop = periods.longest(kLeast);
    if (!loop.length || find_window(periods, loop)) return;
    const size_t end = end_;
    for (int tries = 0; tries < 2 && count_ > static_cast<int64_t>(kLeast); ++tries) {
      --count_;
      end_ -= length_;
      if (find_inputs() && fit_stacks() && fit_changes() && find_window(periods, loop)) return;
    }
    end_ = end;
    count_ = static_cast<int64_t>((end_ - start_) / length_);
    find_inputs();
  }

  bool find_window(const Periods& periods, const Period& loop) {
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
    window_ = {lo, hi + 1};
    return true;
  }

  // What was made before and is read run by run stands in a stack, of which there is one for each
  // register of a period.
  struct Range {
    int lowest, highest;
    std::vector<int> regs;
  };
  std::map<std::pair<int, int>, Range> ranges() {
    std::map<std::pair<int, int>, Range> found;
    for (int reg : order_) {
      const Input& in = inputs_[reg];
      if (in.kind != Relation::Stacked) continue;
      int apart = static_cast<int>(std::abs(in.step / each_));
      Range& range = found.try_emplace({apart, reg % apart}, Range{reg, reg, {}}).first->second;
      range.lowest = std::min({range.lowest, reg, in.reg});
      range.highest = std::max({range.highest, reg, in.reg});
      range.regs.push_back(reg);
    }
    return found;
  }

  bool fit_stacks() {
    for (auto& [key, range] : ranges()) {
      for (int reg = range.lowest; reg <= range.highest; reg += key.first) {
        if (p_.registers[reg].form != p_.registers[range.lowest].form || periods_.maker(reg) >= 0 ||
            !may_stack(reg))
          return false;
      }
    }
    return true;
  }

  void make_stacks() {
    for (auto& [key, range] : ranges()) {
      int apart = key.first;
      int64_t row = bytes_of(p_.registers[range.lowest].geometry());
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

  bool may_stack(int reg) const { return is_stackable(p_, reg); }

  // The instruction that runs it: its operands, in the order of the inputs.
  void connect() {
    Program& body = loop_->body;
    body.inputs.clear();
    for (Relation::Kind kind : {Relation::Moved, Relation::Row, Relation::Fixed}) {
      for (int reg : order_) {
        const Input& in = inputs_[reg];
        if (in.kind != kind) continue;
        body.inputs.push_back(reg);
        made_.reads.push_back({in.reg});
        if (kind == Relation::Moved) ++loop_->carries;
        if (kind == Relation::Row) loop_->rows.push_back({in.offset, in.step});
      }
    }
    for (Repeat::Stack& s : loop_->stacks) {
      if (s.read < 0) continue;
      made_.reads.push_back({bases_[static_cast<size_t>(s.read)]});
      s.read = static_cast<int>(made_.reads.size()) - 1;
    }
    body.given = static_cast<int>(body.inputs.size());
    set_outputs();
    auto carries = static_cast<int>(loop_->carries);
    for (Repeat::Taken& t : loop_->taken) t.output += carries;
    for (Repeat::Written& w : loop_->written) w.output += carries;
    for (const Instruction& i : body.code) {
      made_.may_fail |= i.may_fail;
      made_.drawing |= i.draws();
    }
    loop_->count = count_;
  }

  void finish_body() {
    Program& body = loop_->body;
    roll(body, {});
    fold(body);
    mark_seen_constants(body);
    keep_unfused(body);
    fuse(body);
    remove_dead(body);
    renumber(body);
    find_last_reads(body);
  }

  void replace() {
    made_.with_more().repeat = std::move(loop_);
    std::vector<Instruction> code;
    code.reserve(p_.code.size() - (end_ - start_) + constants_.size() + 1);
    auto move = [&](size_t from, size_t to) {
      for (size_t k = from; k < to; ++k) {
        if (!ended_.count(&p_.code[k])) code.push_back(std::move(p_.code[k]));
      }
    };
    move(0, start_);
    for (Instruction& i : constants_) code.push_back(std::move(i));
    code.push_back(std::move(made_));
    move(end_, p_.code.size());
    p_.code = std::move(code);
  }

  Program& p_;
  const Loops& from_;
  const Periods& periods_;
  const Period& period_;
  size_t length_;  // of a run, in instructions
  int64_t each_;   // periods in one
  size_t start_ = 0, end_ = 0;
  int64_t count_ = 0;
  std::unordered_map<int, Input> inputs_;
  std::vector<int> order_;  // of the inputs
  std::vector<bool> gone_;  // instructions of the last run that are inputs of it
  std::map<size_t, std::shared_ptr<std::vector<const Value*>>> tables_;
  std::vector<Instruction> constants_;
  struct Window {
    size_t first = 0, last = 0;
  } window_;  // of the code before, that makes what the last run reads
  std::unordered_map<int, int> output_at_;
  std::vector<int> outputs_;  // after the carries
  std::unordered_set<int> taken_;
  std::vector<int> bases_;
  std::vector<int> lent_;  // memory that is outside for the body alone
  std::unordered_map<int, size_t> changed_at_;
  std::unordered_set<const Instruction*> ended_;
  Instruction made_;
  std::shared_ptr<Repeat> loop_ = std::make_shared<Repeat>();
};

// Views of earlier values are made again where they are first read: what stands behind them is one
// value, and may be a stack.
void make_views_again(Program& p, const std::vector<Instruction>& before) {
  std::vector<int> alias(p.registers.size(), -1);
  for (size_t k = 0; k < before.size(); ++k) {
    if (before[k].kind == Kind::Alias) alias[before[k].writes[0]] = static_cast<int>(k);
  }
  std::vector<bool> made(p.registers.size());
  std::vector<Instruction> code;
  code.reserve(p.code.size());
  for (Instruction& i : p.code) {
    for (const Read& r : i.reads) {
      if (made[r.reg] || alias[r.reg] < 0) continue;
      made[r.reg] = true;
      if (!p.roots[p.registers[r.reg].root].changed) code.push_back(before[alias[r.reg]]);
    }
    for (int w : i.writes) {
      if (w >= 0) made[w] = true;
    }
    code.push_back(std::move(i));
  }
  p.code = std::move(code);
}

bool roll_once(Program& p, const Loops& from, size_t target) {
  auto stackable = [&](int reg) { return from.stack && is_stackable(p, reg); };
  for (bool loose : {false, true}) {
    Periods periods(p.code, p, stackable, loose);
    Period found = periods.longest(kLeast);
    if (2 * (found.last - found.first) < p.code.size() && !loose) continue;
    if (found.last - found.first < std::min(roll_from / 4, p.code.size() / 2)) continue;
    if (Loop(p, from, periods, found, target).make()) return true;
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
