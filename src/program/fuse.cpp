// Read fuse.h first.
//
// Note [Levels]
// Every instruction has a level: above those of what it depends on, except that an elementwise op
// stays on the level of elementwise ops of its own shape. The ops of one shape on one level are a
// group. A dependency leads to a higher level, or stays inside of a group; so groups can be put in
// an order, and no search for cycles is needed.
#include "fuse.h"

#include <map>
#include <queue>

#include "../kernels/convert.h"
#include "../ops/elementwise_forward.h"
#include "tiles.h"

namespace adjoint {
namespace {

constexpr int64_t kLarge = 16384;  // elements from which on memory is a concern
constexpr int kMaxWritten = 16;    // results of a group of that size

// A register as memory, or as the result of a group: what views of it are resolved to.
struct Source {
  int reg;
  int64_t offset = 0;  // in bytes
  bool same = true;    // the same elements in the same places
};

class Fusion {
 public:
  Fusion(Program& p, const Tensors& headers)
      : p_(p), headers_(headers), made_by_(p.registers.size(), -1), alias_(p.registers.size(), -1) {
    for (size_t k = 0; k < p.code.size(); ++k) {
      const Instruction& i = p.code[k];
      effects_ |= i.has_effect() || i.kind == Kind::Change;
      for (int w : i.writes) {
        if (w >= 0) made_by_[w] = static_cast<int>(k);
      }
      if (i.kind == Kind::Alias) alias_[i.writes[0]] = static_cast<int>(k);
    }
  }

  void run() {
    place();
    order();
  }

 private:
  struct Unit {
    std::vector<int> members;  // instructions; one that is not elementwise is alone
    std::vector<int> after;    // units that come later
    int waits = 0;
    bool group = false;
  };

  const Geometry& geometry(int reg) const { return p_.registers[reg].geometry; }
  bool changed(int reg) const { return p_.roots[p_.registers[reg].root].changed; }

  Source source(int reg) const {
    Source s{reg};
    while (alias_[s.reg] >= 0) {
      const Instruction& i = p_.code[alias_[s.reg]];
      s.offset += i.alias_offset;
      s.reg = i.reads[0].reg;
    }
    const Geometry &g = geometry(reg), &of = geometry(s.reg);
    s.same = s.offset == 0 && g.dtype == of.dtype && g.shape == of.shape && g.strides == of.strides;
    return s;
  }

  // The one value that all elements have, if they are known to: ones_like and its kin.
  const char* uniform(const Source& s, int reg) const {
    int k = made_by_[s.reg];
    if (k < 0 || geometry(s.reg).dtype != geometry(reg).dtype || geometry(s.reg).numel() == 0)
      return nullptr;
    const Instruction& i = p_.code[k];
    bool one = i.kind == Kind::Constant && geometry(s.reg).numel() == 1;
    if (!one && !(i.kind == Kind::Apply && fills(i))) return nullptr;
    return headers_[s.reg]->data;
  }

  static bool fills(const Instruction& i) {
    static constexpr std::string_view names[] = {
        "ones",      "zeros",      "full",     "ones_like", "zeros_like",
        "full_like", "_ones_like", "new_ones", "new_zeros", "new_full"};
    for (const Read& r : i.reads) {
      if (r.argument != 0) return false;  // a number that is a tensor
    }
    return std::find(std::begin(names), std::end(names), i.op->name) != std::end(names);
  }

  static bool divides_integers(const KernelStep& s) {
    static constexpr std::string_view names[] = {"trunc_divide", "floor_divide", "fmod",
                                                 "remainder"};
    return is_integral(s.common) &&
           std::find(std::begin(names), std::end(names), s.kernel->name) != std::end(names);
  }

  static bool copies(const Instruction& i) {
    return i.op->name == "_to_copy" || i.op->name == "clone" || i.op->name == "contiguous" ||
           i.op->name == "_with_strides";
  }

  bool fusible(const Instruction& i) const {
    if (i.kind != Kind::Apply || i.writes.size() != 1 || i.writes[0] < 0) return false;
    const Geometry& out = geometry(i.writes[0]);
    if (!is_dense(out.shape, out.strides)) return false;
    if (touches_changed(i)) return false;
    if (i.kernel) {
      // An error should come before or after an effect as it does without the program.
      if (effects_ && divides_integers(*i.kernel)) return false;
      return i.kernel->kernel->loop[static_cast<int>(compute_dtype(i.kernel->common))] &&
             result_dtype(*i.kernel->kernel, i.kernel->common) == out.dtype;
    }
    return copies(i) && geometry(i.reads[0].reg).shape == out.shape &&
           p_.registers[i.reads[0].reg].root != p_.registers[i.writes[0]].root;
  }

  bool touches_changed(const Instruction& i) const {
    bool any = false;
    for (const Read& r : i.reads) any |= changed(r.reg);
    for (int w : i.writes) any |= w >= 0 && changed(w);
    return any;
  }

  // What has to stay in order, besides values: effects, and all that touches changed memory.
  bool ordered(const Instruction& i) const {
    return i.has_effect() || i.kind == Kind::Change || i.kind == Kind::GradOf || touches_changed(i);
  }

  // --- groups
  void place() {
    std::vector<int> level(p_.code.size()), shape_of(p_.code.size(), -1);
    std::map<std::vector<int64_t>, int> shapes;
    std::map<std::pair<int, int>, int> open;  // (shape, level) -> unit
    std::vector<bool> outside = read_outside();
    unit_of_.assign(p_.code.size(), -1);
    int last_ordered = -1;
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      bool fused = fusible(i);
      if (fused) {
        Span s = geometry(i.writes[0]).shape;
        shape_of[k] =
            shapes.emplace(std::vector<int64_t>(s.begin(), s.end()), shapes.size()).first->second;
      }
      each_dependency(i, fused, [&](int from, bool same) {
        bool stays = fused && same && shape_of[from] == shape_of[k];
        level[k] = std::max(level[k], level[from] + (stays ? 0 : 1));
      });
      if (ordered(i)) {
        if (last_ordered >= 0) level[k] = std::max(level[k], level[last_ordered] + 1);
        last_ordered = static_cast<int>(k);
      }
      if (!fused) {
        unit_of_[k] = new_unit(k, false);
        continue;
      }
      auto [at, fresh] = open.emplace(std::pair{shape_of[k], level[k]}, -1);
      if (fresh || full(at->second))
        at->second = new_unit(k, true);
      else
        units_[at->second].members.push_back(static_cast<int>(k));
      unit_of_[k] = at->second;
      if (outside[i.writes[0]]) ++written_[unit_of_[k]];
    }
  }

  int new_unit(size_t k, bool group) {
    Unit u;
    u.members.push_back(static_cast<int>(k));
    u.group = group;
    units_.push_back(std::move(u));
    written_.push_back(0);
    return static_cast<int>(units_.size()) - 1;
  }

  // Large groups with many results would keep them all in memory at once.
  bool full(int unit) const {
    const Instruction& i = p_.code[units_[unit].members[0]];
    return written_[unit] >= kMaxWritten && geometry(i.writes[0]).numel() >= kLarge;
  }

  // Registers that are read by something that is not elementwise on their shape.
  std::vector<bool> read_outside() const {
    std::vector<bool> outside(p_.registers.size());
    for (int r : p_.outputs) {
      if (r >= 0) outside[source(r).reg] = true;
    }
    for (const Instruction& i : p_.code) {
      bool fused = fusible(i);
      for (const Read& r : i.reads) {
        Source s = source(r.reg);
        if (!fused || !s.same || !(geometry(s.reg).shape == geometry(i.writes[0]).shape))
          outside[s.reg] = true;
      }
    }
    return outside;
  }

  // f(instruction, whether its very elements are read)
  template <class F>
  void each_dependency(const Instruction& i, bool fused, F&& f) const {
    for (const Read& r : i.reads) {
      if (!fused) {
        if (made_by_[r.reg] >= 0) f(made_by_[r.reg], false);
        continue;
      }
      Source s = source(r.reg);
      if (!uniform(s, r.reg) && made_by_[s.reg] >= 0) f(made_by_[s.reg], s.same);
    }
  }

  // --- order
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
        each_dependency(p_.code[k], units_[u].group,
                        [&](int from, bool) { edge(unit_of_[from], static_cast<int>(u)); });
      }
    }
    int last_ordered = -1;
    for (size_t k = 0; k < p_.code.size(); ++k) {
      if (!ordered(p_.code[k])) continue;
      if (last_ordered >= 0) {
        units_[last_ordered].after.push_back(unit_of_[k]);
        ++units_[unit_of_[k]].waits;
      }
      last_ordered = unit_of_[k];
    }
  }

  // Of the units that can run, always the one that stood first.
  void order() {
    connect();
    auto later = [&](int a, int b) { return units_[a].members[0] > units_[b].members[0]; };
    std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
    for (size_t u = 0; u < units_.size(); ++u) {
      if (!units_[u].waits) ready.push(static_cast<int>(u));
    }
    std::vector<bool> needed = needed_outside();
    std::vector<Instruction> code;
    while (!ready.empty()) {
      int u = ready.top();
      ready.pop();
      code.push_back(units_[u].group ? instruction(units_[u], needed)
                                     : p_.code[units_[u].members[0]]);
      for (int next : units_[u].after) {
        if (!--units_[next].waits) ready.push(next);
      }
    }
    if (code.size() != units_.size()) throw std::logic_error("instructions wait for one another");
    p_.code = std::move(code);
  }

  // Registers that are read by another unit than the one that makes them.
  std::vector<bool> needed_outside() const {
    std::vector<bool> needed(p_.registers.size());
    for (int r : p_.outputs) {
      if (r >= 0) needed[r] = true;
    }
    for (size_t k = p_.code.size(); k-- > 0;) {
      const Instruction& i = p_.code[k];
      bool group = units_[unit_of_[k]].group;
      // Groups see through views and fills; where nobody else reads these they will go.
      bool goes = i.kind == Kind::Alias || (i.kind == Kind::Apply && fills(i));
      if (goes && !needed[i.writes[0]]) continue;
      for (const Read& r : i.reads) {
        Source s = group ? source(r.reg) : Source{r.reg};
        if (group && uniform(s, r.reg)) continue;
        int from = made_by_[s.reg];
        if (from < 0 || unit_of_[from] != unit_of_[k]) needed[s.reg] = true;
      }
    }
    return needed;
  }

  // --- the loops of a group
  Instruction instruction(const Unit& u, const std::vector<bool>& needed) {
    Instruction made;
    made.kind = Kind::Fused;
    made.line = p_.code[u.members[0]].line;
    TileBuilder tiles(geometry(p_.code[u.members[0]].writes[0]).shape);
    std::map<int, int> value_of;  // register -> value
    for (int k : u.members) {
      const Instruction& i = p_.code[k];
      int reg = i.writes[0];
      int value = i.kernel
                      ? kernel_value(tiles, made, i, value_of)
                      : operand(tiles, made, i.reads[0].reg, geometry(reg).dtype, reg, value_of);
      if (needed[reg]) {
        if (!i.kernel) value = tiles.copied(value);
        tiles.result(value, static_cast<int>(made.writes.size()), geometry(reg));
        made.writes.push_back(reg);
      }
      value_of.emplace(reg, value);
    }
    made.fused = tiles.finish();
    return made;
  }

  int kernel_value(TileBuilder& tiles, Instruction& made, const Instruction& i,
                   const std::map<int, int>& value_of) {
    const KernelStep& step = *i.kernel;
    DType compute = compute_dtype(step.common);
    bool chooses = std::string_view(step.kernel->name) == "where";
    std::vector<int> operands;
    for (size_t n = 0; n < step.operands.size(); ++n) {
      const KernelStep::Operand& o = step.operands[n];
      if (o.read < 0) {
        operands.push_back(tiles.number(o.number, compute));
        continue;
      }
      int reg = i.reads[o.read].reg;
      bool condition = chooses && n == 0 && geometry(reg).dtype == DType::Bool;
      operands.push_back(
          operand(tiles, made, reg, condition ? DType::Bool : compute, i.writes[0], value_of));
    }
    if (divides_integers(step)) tiles.may_fault();
    int value = tiles.loop(step.kernel->loop[static_cast<int>(compute)], operands,
                           result_dtype(*step.kernel, compute));
    return tiles.converted(value, result_dtype(*step.kernel, step.common));
  }

  // The value of a register as dtype `wanted`, seen from the shape of register `out`.
  int operand(TileBuilder& tiles, Instruction& made, int reg, DType wanted, int out,
              const std::map<int, int>& value_of) {
    Source s = source(reg);
    if (auto found = value_of.find(s.reg); found != value_of.end())
      return tiles.converted(found->second, wanted);
    const Geometry& g = geometry(reg);
    if (const char* bytes = uniform(s, reg)) return tiles.element(bytes, g.dtype, wanted);
    size_t read = 0;
    while (read < made.reads.size() && made.reads[read].reg != s.reg) ++read;
    if (read == made.reads.size()) made.reads.push_back({s.reg});
    const Dims& shape = geometry(out).shape;
    Dims strides(shape.size(), 0);
    int lead = shape.size() - g.shape.size();
    for (int i = 0; i < g.shape.size(); ++i) {
      if (g.shape[i] != 1)
        strides[lead + i] = g.strides[i] * static_cast<int64_t>(item_size(g.dtype));
    }
    return tiles.memory(static_cast<int>(read), s.offset, std::move(strides), g.dtype, wanted);
  }

  Program& p_;
  const Tensors& headers_;
  std::vector<int> made_by_;  // register -> instruction
  std::vector<int> alias_;    // register -> the Alias instruction that makes it
  bool effects_ = false;
  std::vector<Unit> units_;
  std::vector<int> unit_of_, written_;
};

}  // namespace

void fuse(Program& p, const Tensors& headers) { Fusion(p, headers).run(); }

}  // namespace adjoint
