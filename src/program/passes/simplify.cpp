// Read simplify.h first.
#include "program/passes/simplify.h"

#include <algorithm>

#include "program/few.h"

namespace adjoint {

namespace {

std::vector<bool> output_registers(const Program& p) {
  std::vector<bool> is_output(p.registers.size());
  for (int r : p.outputs) {
    if (r >= 0) is_output[r] = true;
  }
  return is_output;
}

// --- views ---------------------------------------------------------------------------------------
// Whether an op gave nothing but other headers on the memory of its operand.
bool only_views(const Program& p, const Instruction& i) {
  if (i.kind != Kind::Apply || i.reads.size() != 1 || i.draws()) return false;
  bool any = false;
  for (int w : i.writes) {
    if (w < 0) continue;
    if (p.registers[w].root != p.registers[i.reads[0].reg].root) return false;
    any = true;
  }
  return any;
}

Instruction alias_of(const Instruction& i, int reg) {
  Instruction a;
  a.kind = Kind::Alias;
  a.line = i.line;
  a.reads.push_back({i.reads[0].reg});
  a.writes.push_back(reg);
  return a;
}

// One instruction for each view of an op that gives several.
void take_views_apart(Program& p, const std::vector<bool>& views) {
  std::vector<Instruction> code;
  code.reserve(p.code.size());
  for (size_t k = 0; k < p.code.size(); ++k) {
    Instruction& i = p.code[k];
    if (!views[k]) {
      code.push_back(std::move(i));
      continue;
    }
    for (int w : i.writes) {
      if (w >= 0) code.push_back(alias_of(i, w));
    }
  }
  p.code = std::move(code);
}

}  // namespace

void make_aliases(Program& p) {
  std::vector<bool> is_output =
      output_registers(p);  // these are views of their base for the caller
  std::vector<bool> views(p.code.size());
  bool any = false;
  for (size_t k = 0; k < p.code.size(); ++k) {
    const Instruction& i = p.code[k];
    views[k] = only_views(p, i);
    for (int w : i.writes) views[k] = views[k] && (w < 0 || !is_output[w]);
    any |= views[k] || i.kind == Kind::Alias;
  }
  if (!any) return;
  auto results = [](const Instruction& i) {
    return std::ranges::count_if(i.writes, [](int w) { return w >= 0; });
  };
  bool apart = false;  // some view op gives several
  for (size_t k = 0; k < p.code.size(); ++k) apart |= views[k] && results(p.code[k]) > 1;
  if (apart)
    take_views_apart(p, views);
  else
    for (size_t k = 0; k < p.code.size(); ++k) {
      if (views[k]) p.code[k] = alias_of(p.code[k], *std::ranges::max_element(p.code[k].writes));
    }
  std::vector<int> viewed(p.registers.size(), -1);  // by alias: the memory that it shows
  for (Instruction& i : p.code) {
    if (i.kind != Kind::Alias) continue;
    int& of = i.reads[0].reg;
    if (viewed[of] >= 0) of = viewed[of];
    viewed[i.writes[0]] = of;
  }
}

// --- common subexpressions -----------------------------------------------------------------------
namespace {

bool is_mergeable(const Program& p, const Instruction& i) {
  if ((i.kind != Kind::Apply && i.kind != Kind::Alias) || i.draws() || i.has_table()) return false;
  auto changed = [&](int reg) { return reg >= 0 && p.roots[p.registers[reg].root].changed; };
  bool any = false;
  for (int w : i.writes) any |= changed(w);
  for (const Read& r : i.reads) any |= changed(r.reg);
  return !any;
}

bool is_data(const Program& p, int reg) { return reg >= 0 && p.registers[reg].data; }

// Whether two registers on one memory have the same elements in the same places.
bool is_in_place_of(const Program& p, int a, int b) {
  const Register &r = p.registers[a], &s = p.registers[b];
  return r.offset == s.offset && r.geometry() == s.geometry();
}

size_t hash_of(const Program& p, const Instruction& i) {
  size_t h = mix(reinterpret_cast<uintptr_t>(i.op) >> 4, reinterpret_cast<uintptr_t>(i.args) >> 4);
  for (const Read& r : i.reads) h = mix(h, static_cast<size_t>(r.reg));
  if (i.kind == Kind::Alias) h = mix(h, static_cast<size_t>(p.registers[i.writes[0]].offset));
  return h;
}

// Whether two instructions compute the same from the same.
bool is_same(const Program& p, const Instruction& a, const Instruction& b) {
  if (a.kind != b.kind || a.op != b.op || a.args != b.args || a.reads.size() != b.reads.size() ||
      a.writes.size() != b.writes.size())
    return false;
  for (size_t k = 0; k < a.reads.size(); ++k) {
    const Read &r = a.reads[k], &s = b.reads[k];
    if (r.reg != s.reg || r.argument != s.argument || r.item != s.item) return false;
  }
  for (size_t k = 0; k < a.writes.size(); ++k) {
    if (is_data(p, a.writes[k]) != is_data(p, b.writes[k])) return false;
  }
  return a.kind != Kind::Alias || is_in_place_of(p, a.writes[0], b.writes[0]);
}

}  // namespace

std::vector<bool> seen_roots(const Program& p) {
  std::vector<bool> seen(p.roots.size());
  auto see = [&](int reg) {
    if (reg >= 0) seen[p.registers[reg].root] = true;
  };
  for (int r : p.outputs) see(r);
  for (const Instruction& i : p.code) {
    if (i.kind == Kind::SetGrad && i.reads.size() > 1) see(i.reads[1].reg);
    if (i.kind == Kind::Host) {
      for (const Read& r : i.reads) see(r.reg);
    }
  }
  for (size_t k = 0; k < seen.size(); ++k) seen[k] = seen[k] || p.roots[k].changed;
  return seen;
}

namespace {

// Instructions that stay, in their order: they move up to where others have gone.
class Kept {
 public:
  explicit Kept(std::vector<Instruction>& code) : code_(code) {}
  size_t size() const { return count_; }
  void add(Instruction& i) {
    if (&i != &code_[count_]) code_[count_] = std::move(i);
    ++count_;
  }
  void finish() { code_.erase(code_.begin() + static_cast<std::ptrdiff_t>(count_), code_.end()); }

 private:
  std::vector<Instruction>& code_;
  size_t count_ = 0;
};

}  // namespace

std::vector<int> merge_common(Program& p) {
  std::vector<int> same(p.registers.size());
  for (size_t r = 0; r < same.size(); ++r) same[r] = static_cast<int>(r);
  // Two results may be merged only while nobody can tell them apart, by changing one.
  std::vector<bool> seen_root = seen_roots(p), is_output = output_registers(p);
  // A second header on all of a tensor, which nobody gets to see: the tensor itself does as well.
  auto is_the_same = [&](const Instruction& i) {
    return i.kind == Kind::Alias && !is_output[i.writes[0]] &&
           is_in_place_of(p, i.reads[0].reg, i.writes[0]);
  };
  Lookup found(p.code.size());  // instructions that are kept
  Kept kept(p.code);
  // Takes the results of an earlier instruction, if every one that is wanted is there.
  auto take = [&](const Instruction& i, const Instruction& first) {
    for (size_t k = 0; k < i.writes.size(); ++k) {
      if (i.writes[k] >= 0 && first.writes[k] < 0) return false;
    }
    for (size_t k = 0; k < i.writes.size(); ++k) {
      if (i.writes[k] >= 0) same[i.writes[k]] = first.writes[k];
    }
    return true;
  };
  for (Instruction& i : p.code) {
    for (Read& r : i.reads) r.reg = same[r.reg];
    if (is_the_same(i)) {
      same[i.writes[0]] = i.reads[0].reg;
      continue;
    }
    if (is_mergeable(p, i)) {
      bool seen = false;
      for (int w : i.writes) seen |= w >= 0 && seen_root[p.registers[w].root];
      size_t hash = hash_of(p, i);
      int first = found.find(hash, [&](int k) { return is_same(p, p.code[k], i); });
      if (first < 0)
        found.add(hash, static_cast<int>(kept.size()));
      else if (!seen && take(i, p.code[first]))
        continue;
    }
    kept.add(i);
  }
  kept.finish();
  return same;
}

// --- dead code -----------------------------------------------------------------------------------
void remove_dead(Program& p) {
  std::vector<bool> live(p.registers.size()), live_root(p.roots.size());
  auto use = [&](int reg) {
    live[reg] = true;
    live_root[p.registers[reg].root] = true;
  };
  for (int r : p.outputs) {
    if (r >= 0) use(r);
  }
  std::vector<bool> needed(p.code.size());
  for (size_t k = p.code.size(); k-- > 0;) {
    Instruction& i = p.code[k];
    bool wanted = i.has_effect() || i.may_fail;
    for (int& w : i.writes) {
      if (w >= 0 && !live[w] && i.kind != Kind::Fused) w = -1;
      wanted |= w >= 0;
    }
    if (i.kind == Kind::Change) {
      int root = p.registers[i.reads[0].reg].root;
      wanted |= p.roots[root].external || live_root[root];
    }
    if (!wanted) continue;
    needed[k] = true;
    for (const Read& r : i.reads) use(r.reg);
  }
  Kept kept(p.code);
  for (size_t k = 0; k < p.code.size(); ++k) {
    if (needed[k]) kept.add(p.code[k]);
  }
  kept.finish();
}

void mark_seen_constants(Program& p) {
  std::vector<bool> seen = seen_roots(p);
  for (Instruction& i : p.code)
    i.fresh = i.kind == Kind::Constant && seen[p.registers[i.writes[0]].root];
}

void keep_unfused(Program& p) {
  Program copy;
  copy.registers = p.registers;
  copy.code = p.code;
  copy.inputs = p.inputs;
  copy.outputs = p.outputs;
  renumber(copy);
  auto kept = std::make_shared<Unfused>();
  kept->registers = std::move(copy.registers);
  kept->code = std::move(copy.code);
  kept->inputs = std::move(copy.inputs);
  kept->outputs = std::move(copy.outputs);
  p.unfused = std::move(kept);
}

void renumber(Program& p) {
  std::vector<int> to(p.registers.size(), -1);
  std::vector<Register> kept;
  auto number = [&](int& reg) {
    if (reg < 0) return;
    if (to[reg] < 0) {
      to[reg] = static_cast<int>(kept.size());
      kept.push_back(p.registers[reg]);
    }
    reg = to[reg];
  };
  for (int& r : p.inputs) number(r);
  for (Instruction& i : p.code) {
    for (Read& r : i.reads) number(r.reg);
    for (int& w : i.writes) number(w);
  }
  for (int& r : p.outputs) number(r);
  p.registers = std::move(kept);
}

void find_last_reads(Program& p) {
  std::vector<bool> read_later(p.registers.size());
  for (int r : p.outputs) {
    if (r >= 0) read_later[r] = true;
  }
  for (size_t k = p.code.size(); k-- > 0;) {
    Instruction& i = p.code[k];
    i.last.clear();
    auto look_at = [&](int reg) {
      if (reg < 0 || read_later[reg]) return;
      read_later[reg] = true;
      i.last.push_back(reg);
    };
    for (const Read& r : i.reads) look_at(r.reg);
    for (int w : i.writes) look_at(w);
  }
}

}  // namespace adjoint
