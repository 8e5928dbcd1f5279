// Read fuse.h first.
//
// Note [Levels]
// Every instruction has a level: above those of what it depends on, except that an elementwise op
// stays on the level of elementwise ops of its own shape. The ops of one shape on one level are a
// group. A dependency leads to a higher level, or stays inside a group; so groups can be put in
// an order, and no search for cycles is needed.
#include "program/fuse/fuse.h"

#include <map>
#include <queue>
#include <span>

#include "dispatch/elementwise_forward.h"
#include "program/fuse/layouts.h"
#include "program/fuse/loop_parts.h"
#include "program/fuse/padding.h"
#include "program/fuse/pitches.h"
#include "program/fuse/repeats.h"

namespace adjoint {
namespace {

constexpr int64_t kLarge = 16384;    // elements from which on memory is a concern
constexpr int kMaxWritten = 16;      // results of a group of that size
constexpr int64_t kMuchSmaller = 8;  // times: units that may wait

constexpr int16_t kInBox = -2;  // Read::item of what is read as a box of something else

// How an instruction is run.
enum class How : uint8_t {
  Alone,  // as it was recorded
  Group,  // with elementwise ops of its shape
  Small,  // by loops of its own, in a block
  Sum,    // with the group that makes what it sums
  Boxed,  // not at all: groups read the boxes that it is put together from
};

class Fusion {
 public:
  explicit Fusion(Program& p)
      : p_(p),
        repeated_(repeat_far(p)),
        sources_(p),
        boxed_(p, sources_),
        values_(p.registers.size(), boxed_),
        layouts_(p, sources_),
        pitches_(p, sources_, boxed_),
        padding_(p, sources_, boxed_) {
    calls_.reserve(p.code.size());
    how_.reserve(p.code.size());
    for (const Instruction& i : p.code) effects_ |= i.has_effect() || i.kind == Kind::Change;
    for (const Instruction& i : p.code) {
      auto call = call_of(i, p.registers);
      calls_.push_back(call ? std::make_unique<SmallCall>(std::move(*call)) : nullptr);
      how_.push_back(way_of(i, calls_.back() != nullptr));
    }
    order_changes();
    read_boxes();
  }

  void run() {
    place();
    find_needed();
    connect();
    order();
  }

 private:
  struct Unit {
    std::vector<int> members;  // instructions; one that is not in a group is alone
    std::vector<int> after;    // units that come later
    int waits = 0;
    bool small = false;  // a part of a block
  };

  const TensorGeometry& geometry(int reg) const { return sources_.geometry(reg); }

  // --- what an instruction is
  // Whether an instruction takes an operand as a number rather than from memory.
  bool is_number(size_t k, int reg) const {
    return how_[k] != How::Alone && !calls_[k] && sources_.uniform(reg);
  }

  How way_of(const Instruction& i, bool is_call) const {
    if (i.kind != Kind::Apply || i.writes.size() != 1 || i.writes[0] < 0 || i.changes)
      return How::Alone;
    const TensorGeometry& out = geometry(i.writes[0]);
    if (!out.dense || out.pending) return How::Alone;
    for (const Read& r : i.reads) {
      if (geometry(r.reg).pending) return How::Alone;  // the loops read memory as it is
    }
    bool filled = Sources::fills(i) && sources_.uniform(i.writes[0]);
    if (sums_a_group(i, sources_)) {
      int from = sources_.made_by(sources_.of(i.reads[0].reg).reg);
      bool made = from >= 0 && how_[from] == How::Group && !touches_changed(i);
      return made ? How::Sum : How::Alone;
    }
    if (i.pieces() || is_call || is_outer(i, sources_) || filled)
      return out.numel < kBlockNumel ? How::Small : How::Alone;
    if (i.kernel) {
      // An error should come before or after an effect as it does without the program.
      if (effects_ && divides_integers(*i.kernel)) return How::Alone;
      bool fits = i.kernel->kernel->loop[static_cast<int>(compute_dtype(i.kernel->common))] &&
                  result_dtype(*i.kernel->kernel, i.kernel->common) == out.dtype;
      return fits ? How::Group : How::Alone;
    }
    bool copy = i.op->facts.copies && geometry(i.reads[0].reg).shape == out.shape &&
                p_.registers[i.reads[0].reg].root != p_.registers[i.writes[0]].root;
    return copy ? How::Group : How::Alone;
  }

  bool touches_changed(const Instruction& i) const {
    bool any = false;
    for (const Read& r : i.reads) any |= sources_.changed(r.reg);
    for (int w : i.writes) any |= w >= 0 && sources_.changed(w);
    return any;
  }

  // What has to stay in order, besides values: effects, and ops that touch changed memory.
  bool ordered(size_t k) const {
    const Instruction& i = p_.code[k];
    if (i.has_effect() || i.kind == Kind::Change || i.kind == Kind::GradOf) return true;
    if (i.kind == Kind::Constant) return false;  // it is there before all
    return how_[k] == How::Alone && i.kind != Kind::Alias && touches_changed(i);
  }

  // Loops that touch changed memory stay between the changes that they stood between.
  void order_changes() {
    after_first_.reserve(p_.code.size() + 1);
    std::vector<int> change(p_.roots.size(), -1);             // the last one
    std::vector<std::vector<int>> touching(p_.roots.size());  // loops since then
    std::vector<bool> gradients = gradient_roots();
    auto changes = [&](int k, int root) {
      after_.insert(after_.end(), touching[root].begin(), touching[root].end());
      touching[root].clear();
      change[root] = k;
    };
    for (size_t at = 0; at < p_.code.size(); ++at) {
      const Instruction& i = p_.code[at];
      int k = static_cast<int>(at);
      after_first_.push_back(after_.size());
      if (how_[at] != How::Alone) {
        auto touch = [&](int reg) {
          int root = p_.registers[reg].root;
          if (!p_.roots[root].changed) return;
          if (change[root] >= 0) after_.push_back(change[root]);
          touching[root].push_back(k);
        };
        for (const Read& r : reads(at)) touch(r.reg);
        for (int w : i.writes) touch(w);
      } else if (i.kind == Kind::Accumulate) {
        for (size_t root = 0; root < gradients.size(); ++root) {
          if (gradients[root]) changes(k, static_cast<int>(root));
        }
      } else if (i.kind == Kind::Change || i.changes) {
        for (const Read& r : i.reads) changes(k, p_.registers[r.reg].root);
      }
    }
    after_first_.push_back(after_.size());
  }

  // Memory that is, or becomes, the gradient of a leaf.
  std::vector<bool> gradient_roots() const {
    std::vector<bool> roots(p_.roots.size());
    for (const Instruction& i : p_.code) {
      bool gives = i.kind == Kind::Accumulate || i.kind == Kind::SetGrad;
      if (gives && i.reads.size() > 1) roots[p_.registers[i.reads[1].reg].root] = true;
      if (i.kind == Kind::GradOf) roots[p_.registers[i.writes[0]].root] = true;
    }
    return roots;
  }

  // A fill takes nothing but the shape from its operand; a group reads the boxes that a value is put
  // together from.
  std::span<const Read> reads(size_t k) const {
    if (how_[k] == How::Boxed || (how_[k] == How::Small && Sources::fills(p_.code[k]))) return {};
    if (!read_at_.empty() && read_at_[k] >= 0) return through_boxes_[read_at_[k]];
    return {p_.code[k].reads.begin(), p_.code[k].reads.size()};
  }
  // Whether a group may take a value from the tile it is in.
  static bool is_whole(const Read& r) { return r.item != kInBox; }

  // Decides which values groups read box by box: those that nobody else reads.
  void read_boxes() {
    if (boxed_.empty()) return;
    for (int r : p_.outputs) {
      if (r >= 0) boxed_.make(sources_.of(r).reg);
    }
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      if (i.kind == Kind::Alias) continue;
      for (const Read& r : reads(k)) {
        const Source& s = sources_.of(r.reg);
        if (how_[k] != How::Group || !s.same ||
            !(geometry(r.reg).shape == geometry(i.writes[0]).shape))
          boxed_.make(s.reg);
      }
    }
    bool found = false;
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      if (i.writes.size() != 1 || i.writes[0] < 0 || !boxed_.of(i.writes[0])) continue;
      how_[k] = How::Boxed;
      found = true;
    }
    if (!found) return;
    read_at_.assign(p_.code.size(), -1);
    for (size_t k = 0; k < p_.code.size(); ++k) {
      if (how_[k] != How::Group) continue;
      bool any = false;
      for (const Read& r : p_.code[k].reads) any |= boxed_.of(sources_.of(r.reg).reg) != nullptr;
      if (!any) continue;
      std::vector<Read> all;
      for (const Read& r : p_.code[k].reads) {
        const SourceBoxes* boxes = boxed_.of(sources_.of(r.reg).reg);
        if (!boxes) all.push_back(r);
        for (size_t b = 0; boxes && b < boxes->size(); ++b) {
          if ((*boxes)[b].reg >= 0) all.push_back({(*boxes)[b].reg, 0, kInBox});
        }
      }
      read_at_[k] = static_cast<int>(through_boxes_.size());
      through_boxes_.push_back(std::move(all));
    }
  }

  // f(instruction, whether its very elements are read)
  template <class F>
  void each_dependency(size_t k, F&& f) const {
    for (const Read& r : reads(k)) {
      if (how_[k] == How::Alone) {
        if (sources_.made_by(r.reg) >= 0) f(sources_.made_by(r.reg), false);
        continue;
      }
      const Source& s = sources_.of(r.reg);
      if (sources_.made_by(s.reg) >= 0 && !is_number(k, r.reg))
        f(sources_.made_by(s.reg), s.same && is_whole(r));
    }
    for (size_t at = after_first_[k]; at < after_first_[k + 1]; ++at) f(after_[at], false);
  }

  // --- groups
  void place() {
    std::vector<int> level(p_.code.size()), shape_of(p_.code.size(), -1);
    std::map<std::vector<int64_t>, int> shapes;
    size_t before = p_.code.size();           // the last that was looked up: most are of one shape
    std::map<std::pair<int, int>, int> open;  // (shape, level) -> unit
    std::pair<int, int> key(-1, -1);          // the last of those, and its unit
    int* unit = nullptr;
    std::vector<bool> outside = read_outside();
    unit_of_.assign(p_.code.size(), -1);
    int last_ordered = -1;
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      if (how_[k] == How::Boxed) continue;
      bool group = how_[k] == How::Group;
      if (group) {
        Span s = geometry(i.writes[0]).shape;
        const TensorGeometry* last = before < k ? &geometry(p_.code[before].writes[0]) : nullptr;
        bool again = last && (last == &geometry(i.writes[0]) || s == Span(last->shape));
        shape_of[k] = again
                          ? shape_of[before]
                          : shapes.emplace(std::vector<int64_t>(s.begin(), s.end()), shapes.size())
                                .first->second;
        before = k;
      }
      // What is repeated is computed where it is read: with what follows it.
      size_t reader = k;
      while (repeated_[reader]) ++reader;
      for (size_t by = k; by <= reader; ++by) {
        each_dependency(by, [&](int from, bool same) {
          if (from >= static_cast<int>(k)) return;
          bool stays = group && same && shape_of[from] == shape_of[k];
          level[k] = std::max(level[k], level[from] + (stays ? 0 : 1));
        });
      }
      if (ordered(k)) {
        if (last_ordered >= 0) level[k] = std::max(level[k], level[last_ordered] + 1);
        last_ordered = static_cast<int>(k);
      }
      if (how_[k] == How::Sum) {
        int from = sources_.made_by(sources_.of(i.reads[0].reg).reg);
        level[k] = level[from];  // what needs the sum is above the group
        unit_of_[k] = unit_of_[from];
        units_[unit_of_[k]].members.push_back(static_cast<int>(k));
        continue;
      }
      if (!group) {
        unit_of_[k] = new_unit(k);
        continue;
      }
      if (std::pair now(shape_of[k], level[k]); now != key) {
        key = now;
        unit = &open.try_emplace(key, -1).first->second;
      }
      if (*unit < 0 || full(*unit))
        *unit = new_unit(k);
      else
        units_[*unit].members.push_back(static_cast<int>(k));
      unit_of_[k] = *unit;
      if (outside[i.writes[0]]) ++written_[unit_of_[k]];
    }
  }

  int new_unit(size_t k) {
    Unit u;
    u.members.push_back(static_cast<int>(k));
    u.small = how_[k] == How::Small ||
              (how_[k] == How::Group && geometry(p_.code[k].writes[0]).numel < kBlockNumel);
    units_.push_back(std::move(u));
    written_.push_back(0);
    return static_cast<int>(units_.size()) - 1;
  }

  // Large groups with many results would keep them all in memory at once.
  bool full(int unit) const {
    const Instruction& i = p_.code[units_[unit].members[0]];
    return written_[unit] >= kMaxWritten && geometry(i.writes[0]).numel >= kLarge;
  }

  // Registers that are read by something that is not elementwise on their shape.
  std::vector<bool> read_outside() const {
    std::vector<bool> outside(p_.registers.size());
    for (int r : p_.outputs) {
      if (r >= 0) outside[sources_.of(r).reg] = true;
    }
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      for (const Read& r : reads(k)) {
        const Source& s = sources_.of(r.reg);
        if (how_[k] != How::Group || !s.same || !is_whole(r) ||
            !(geometry(s.reg).shape == geometry(i.writes[0]).shape))
          outside[s.reg] = true;
      }
    }
    return outside;
  }

  // --- order
  // Registers that are read by another unit than the one that makes them, and instructions that
  // nobody needs any more.
  void find_needed() {
    needed_.assign(p_.registers.size(), false);
    gone_.assign(p_.code.size(), false);
    for (int r : p_.outputs) {
      if (r >= 0) needed_[r] = true;
    }
    std::vector<bool> used(p_.registers.size());  // by others of its unit
    for (size_t k = p_.code.size(); k-- > 0;) {
      const Instruction& i = p_.code[k];
      // Loops see through views and fills. What only a fill has read, for its shape, goes too.
      bool goes = i.kind == Kind::Alias || i.kind == Kind::Constant ||
                  (i.kind == Kind::Apply && Sources::fills(i));
      goes |= how_[k] != How::Alone && !used[i.writes[0]];
      goes |= how_[k] == How::Boxed;
      if (goes && !needed_[i.writes[0]]) {
        gone_[k] = true;
        continue;
      }
      for (const Read& r : reads(k)) {
        if (is_number(k, r.reg)) continue;
        int reg = how_[k] == How::Alone ? r.reg : sources_.of(r.reg).reg;
        int from = sources_.made_by(reg);
        if (from < 0 || unit_of_[from] != unit_of_[k])
          needed_[reg] = true;
        else
          used[reg] = true;
      }
    }
    for (Unit& u : units_) {
      std::vector<int> left;
      std::copy_if(u.members.begin(), u.members.end(), std::back_inserter(left),
                   [&](int k) { return !gone_[k]; });
      if (!left.empty()) u.members = std::move(left);
    }
  }

  void connect() {
    std::vector<int> last(units_.size(), -1);  // the last unit each was connected to
    auto edge = [&](int from, int to) {
      if (from == to || last[from] == to) return;
      last[from] = to;
      units_[from].after.push_back(to);
      ++units_[to].waits;
    };
    for (size_t u = 0; u < units_.size(); ++u) {
      for (int k : units_[u].members) {
        if (gone_[k]) continue;
        each_dependency(k, [&](int from, bool) {
          if (!gone_[from]) edge(unit_of_[from], static_cast<int>(u));
        });
      }
    }
    int last_ordered = -1;
    for (size_t k = 0; k < p_.code.size(); ++k) {
      if (!ordered(k) || gone_[k]) continue;
      if (last_ordered >= 0) {
        units_[last_ordered].after.push_back(unit_of_[k]);
        ++units_[unit_of_[k]].waits;
      }
      last_ordered = unit_of_[k];
    }
  }

  // Of the units that can run, always the one that stood first; but those of a block stay together,
  // and constants, which are there already, come before all.
  void order() {
    auto later = [&](int a, int b) { return units_[a].members[0] > units_[b].members[0]; };
    std::priority_queue<int, std::vector<int>, decltype(later)> constants(later), small(later),
        others(later);
    auto ready = [&](int u) {
      bool there = p_.code[units_[u].members[0]].kind == Kind::Constant;
      (there ? constants : units_[u].small ? small : others).push(u);
    };
    size_t units = 0;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (gone_[units_[u].members[0]]) continue;
      ++units;
      if (!units_[u].waits) ready(static_cast<int>(u));
    }
    std::vector<int> sequence;
    while (!constants.empty() || !small.empty() || !others.empty()) {
      auto& queue = !constants.empty() ? constants : small.empty() ? others : small;
      int u = queue.top();
      queue.pop();
      sequence.push_back(u);
      for (int next : units_[u].after) {
        if (!--units_[next].waits) ready(next);
      }
    }
    if (sequence.size() != units) throw std::logic_error("instructions wait for one another");
    rewrite(sequence);
  }

  void rewrite(std::vector<int>& sequence) {
    std::vector<int> readers = count_readers(sequence);
    read_by_.assign(p_.registers.size(), 0);
    made_in_.assign(p_.registers.size(), 0);
    std::vector<Instruction> code;
    for (size_t at = 0; at < sequence.size();) {
      const Unit& u = units_[sequence[at]];
      if (u.small) {
        size_t end = at + 1;
        while (end < sequence.size() && units_[sequence[end]].small) ++end;
        code.push_back(block({sequence.data() + at, end - at}, readers));
        at = end;
        continue;
      }
      int first = u.members[0];
      code.push_back(how_[first] == How::Group ? large(u) : std::move(p_.code[first]));
      ++at;
    }
    p_.code = std::move(code);
  }

  // --- instructions
  // How many units read a register, and the caller.
  std::vector<int> count_readers(const std::vector<int>& sequence) const {
    std::vector<int> readers(p_.registers.size());
    for (int r : p_.outputs) {
      if (r >= 0) ++readers[r];
    }
    for (int u : sequence) {
      for (int k : units_[u].members) {
        for (const Read& r : reads(k))
          ++readers[how_[k] == How::Alone ? r.reg : sources_.of(r.reg).reg];
      }
    }
    return readers;
  }

  void set_results(Instruction& made) const {
    for (int reg : made.writes) made.more->fused->results.push_back(geometry(reg));
  }

  Instruction large(const Unit& u) {
    Instruction made;
    made.kind = Kind::Fused;
    made.line = p_.code[u.members[0]].line;
    Part part = group_part(u.members, p_, sources_, needed_, values_);
    ++instruction_;
    for (const TileLoops::Place& p : part.tiles->places) {
      if (p.written)
        made.writes.push_back(p.reg);
      else
        add_read(made, p.reg);
    }
    made.with_more().fused = large_loops(part.tiles, made);
    set_results(made);
    return made;
  }

  void add_read(Instruction& made, int reg) {
    if (std::exchange(read_by_[reg], instruction_) != instruction_) made.reads.push_back({reg});
  }

  void add_parts(const Unit& u, std::vector<Part>& parts, int64_t pitch) {
    int k = u.members[0];
    const Instruction& i = p_.code[k];
    if (how_[k] == How::Group)
      parts.push_back(group_part(u.members, p_, sources_, needed_, values_, pitch));
    else if (calls_[k])
      add_call(parts, i, *calls_[k], sources_);
    else if (i.pieces())
      add_pieces(parts, i, sources_);
    else if (Sources::fills(i))
      add_fill(parts, i.writes[0], i.element(), sources_);
    else
      add_outer(parts, i, sources_);
  }

  // Elements that a unit goes over.
  int64_t size_of(int unit) const {
    const Instruction& i = p_.code[units_[unit].members[0]];
    int64_t size = geometry(i.writes[0]).numel;
    return i.sum() ? std::max(size, geometry(i.reads[0].reg).numel) : size;
  }

  // Much smaller units that stand between larger ones come after those that do not need them: machine
  // code makes one nest of neighbours (program/native/nest.h).
  void postpone_small(std::span<int> units) const {
    auto is_smaller = [&](int a, int b) { return size_of(a) * kMuchSmaller <= size_of(b); };
    for (size_t n = units.size() - 1; n-- > 1;) {
      if (!is_smaller(units[n], units[n - 1])) continue;
      const std::vector<int>& after = units_[units[n]].after;
      for (size_t at = n; at + 1 < units.size() && is_smaller(units[at], units[at + 1]) &&
                          std::ranges::find(after, units[at + 1]) == after.end();
           ++at)
        std::swap(units[at], units[at + 1]);
    }
  }

  // Small units that follow one another. What nobody else reads stays in the block.
  Instruction block(std::span<int> units, std::vector<int>& readers) {
    if (units.size() > 2) postpone_small(units);
    Instruction made;
    made.kind = Kind::Fused;
    made.line = p_.code[units_[units[0]].members[0]].line;
    std::vector<Part> parts;
    std::vector<int> written;
    ++instruction_;
    std::vector<Layouts::Member> members;
    for (int u : units) {
      for (int k : units_[u].members) {
        for (const Read& r : reads(k)) --readers[sources_.of(r.reg).reg];
        members.push_back({&p_.code[k], calls_[k].get(), reads(k)});
      }
    }
    layouts_.choose(members, [&](int reg) { return readers[reg] == 0; });
    std::vector<Pitches::Group> groups;
    for (int u : units) {
      groups.emplace_back();
      for (int k : units_[u].members) groups.back().members.push_back(&p_.code[k]);
      int k = units_[u].members[0];
      if (how_[k] == How::Group) groups.back().shape = geometry(p_.code[k].writes[0]).shape;
    }
    pitches_.choose(
        groups, [&](int reg) { return readers[reg] == 0; }, [&](int reg) { return needed_[reg]; });
    padding_.choose(groups);
    for (size_t n = 0; n < units.size(); ++n) {
      size_t first = parts.size();
      add_parts(units_[units[n]], parts, groups[n].pitch);
      for (const Instruction* i : groups[n].members) padding_.add_zeros(parts, i->writes[0]);
      for (; first < parts.size(); ++first) {
        parts[first].each_register([&](int reg, bool writes) {
          if (made_in_[reg] == instruction_) return;
          if (!writes) return add_read(made, reg);
          written.push_back(reg);
          made_in_[reg] = instruction_;
        });
      }
    }
    for (int reg : written) {
      if (readers[reg] > 0) made.writes.push_back(reg);
    }
    made.with_more().fused =
        make_block(parts, made, p_.registers, [&](int reg) { return padding_.margin(reg); });
    return made;
  }

  Program& p_;
  std::vector<bool> repeated_;  // by instruction: see repeats.h
  Sources sources_;
  BoxedValues boxed_;
  bool effects_ = false;
  std::vector<std::unique_ptr<SmallCall>> calls_;  // by instruction
  std::vector<How> how_;
  std::vector<int>
      read_at_;  // by instruction: into through_boxes_, what it reads in the end; or -1
  std::vector<std::vector<Read>> through_boxes_;
  std::vector<int> after_;  // by instruction, from after_first_ on: others that come before it
  std::vector<size_t> after_first_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_, written_;
  std::vector<bool> needed_, gone_;
  Values values_;
  Layouts layouts_;
  Pitches pitches_;
  Padding padding_;
  // By register: the last of the instructions made here that reads it, that makes it.
  std::vector<int> read_by_, made_in_;
  int instruction_ = 0;
};

}  // namespace

void fuse(Program& p) { Fusion(p).run(); }

}  // namespace adjoint
