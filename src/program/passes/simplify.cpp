// Read simplify.h first.
#include "program/passes/simplify.h"

#include <cstring>
#include <memory_resource>
#include <string>
#include <unordered_map>

namespace adjoint {

bool Geometry::contiguous() const { return is_contiguous(shape, strides, numel()); }
int64_t Geometry::numel() const {
  int64_t n = 1;
  for (int64_t s : Span(shape)) n *= s;
  return n;
}

// --- views ---------------------------------------------------------------------------------------
namespace {

// Whether an op gave nothing but other headers on the memory of its operand.
bool only_views(const Instruction& i, const Tensors& headers) {
  if (i.kind != Kind::Apply || i.reads.size() != 1 || i.draws()) return false;
  bool any = false;
  for (int w : i.writes) {
    if (w < 0) continue;
    if (headers[w]->storage != headers[i.reads[0].reg]->storage) return false;
    any = true;
  }
  return any;
}

Instruction alias_of(const Instruction& i, int reg, const Tensors& headers) {
  const TensorObject* t = headers[reg].get();
  Instruction a;
  a.kind = Kind::Alias;
  a.line = i.line;
  a.reads.push_back({i.reads[0].reg});
  a.writes.push_back(reg);
  a.alias_offset = t->data - headers[i.reads[0].reg]->data;
  a.alias_shape = Dims(Span{t->shape, t->ndim});
  a.alias_strides = Dims(Span{t->strides, t->ndim});
  a.alias_dtype = t->dtype;
  return a;
}

}  // namespace

void make_aliases(Program& p, const Tensors& headers) {
  std::vector<bool> is_output(p.registers.size());  // these are views of their base for the caller
  for (int r : p.outputs) {
    if (r >= 0) is_output[r] = true;
  }
  std::vector<bool> views(p.code.size());
  bool any = false;
  for (size_t k = 0; k < p.code.size(); ++k) {
    const Instruction& i = p.code[k];
    views[k] = only_views(i, headers);
    for (int w : i.writes) views[k] = views[k] && (w < 0 || !is_output[w]);
    any |= views[k] || i.kind == Kind::Alias;
  }
  if (!any) return;
  std::vector<const Instruction*> alias(p.registers.size());
  std::vector<Instruction> code;
  code.reserve(p.code.size());
  for (size_t k = 0; k < p.code.size(); ++k) {
    Instruction& i = p.code[k];
    if (!views[k]) {
      code.push_back(std::move(i));
      continue;
    }
    for (int w : i.writes) {
      if (w >= 0) code.push_back(alias_of(i, w, headers));
    }
  }
  for (Instruction& i : code) {
    if (i.kind != Kind::Alias) continue;
    if (const Instruction* of = alias[i.reads[0].reg]) {
      i.alias_offset += of->alias_offset;
      i.reads[0].reg = of->reads[0].reg;
    }
    alias[i.writes[0]] = &i;
  }
  p.code = std::move(code);
}

// --- common subexpressions -----------------------------------------------------------------------
namespace {

// What an argument that is not a tensor says, as bytes: equal for equal arguments only.
using Bytes = std::pmr::string;
bool append(Bytes& key, const Value& v) {
  auto raw = [&](const auto& x) { key.append(reinterpret_cast<const char*>(&x), sizeof(x)); };
  raw(v.kind());
  switch (v.kind()) {
    case Value::None:
      return true;
    case Value::Bool:
    case Value::Int:
      raw(v.integer());
      return true;
    case Value::Double:
    case Value::Complex:
      raw(v.complex());
      return true;
    case Value::Type:
      raw(v.dtype());
      return true;
    case Value::String:
      raw(v.str().size());
      key += v.str();
      return true;
    case Value::Ints:
      raw(v.ints().size());
      for (int64_t i : Span(v.ints())) raw(i);
      return true;
    case Value::Tensors_:  // the places of tensors, which are reads
      raw(v.tensors().size());
      return true;
    case Value::List:
      raw(v.list().size());
      for (const Value& item : v.list()) {
        if (!append(key, item)) return false;
      }
      return true;
    default:  // a Python object: a generator
      return false;
  }
}

// The key of an instruction that may be merged; empty for the others.
Bytes key_of(const Program& p, const Instruction& i, std::pmr::memory_resource* memory) {
  Bytes key(memory);
  if (i.kind != Kind::Apply && i.kind != Kind::Alias) return key;
  if (i.draws()) return key;
  auto unchanged = [&](int reg) { return !p.roots[p.registers[reg].root].changed; };
  for (int w : i.writes) {
    if (w >= 0 && !unchanged(w)) return key;
  }
  auto raw = [&](const auto& x) { key.append(reinterpret_cast<const char*>(&x), sizeof(x)); };
  raw(i.kind);
  raw(i.op);
  for (const Read& r : i.reads) {
    if (!unchanged(r.reg)) return Bytes(memory);
    raw(r.reg);
    raw(r.argument);
    raw(r.item);
  }
  for (const Value& v : i.args) {
    if (!append(key, v)) return Bytes(memory);
  }
  if (i.kind == Kind::Alias) {
    if (!append(key, Value(i.alias_shape)) || !append(key, Value(i.alias_strides)))
      return Bytes(memory);
    raw(i.alias_offset);
    raw(i.alias_dtype);
  }
  for (int w : i.writes) raw(w >= 0 && p.registers[w].data);
  return key;
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

// A second header on all of a tensor, which nobody gets to see: the tensor itself does as well.
bool is_the_same(const Program& p, const Instruction& i) {
  if (i.kind != Kind::Alias || i.alias_offset != 0) return false;
  for (int r : p.outputs) {
    if (r == i.writes[0]) return false;
  }
  const Geometry& g = p.registers[i.reads[0].reg].geometry;
  return g.dtype == i.alias_dtype && Span(g.shape) == Span(i.alias_shape) &&
         Span(g.strides) == Span(i.alias_strides);
}

}  // namespace

void merge_common(Program& p) {
  std::vector<int> same(p.registers.size());
  for (size_t r = 0; r < same.size(); ++r) same[r] = static_cast<int>(r);
  // Two results may be merged only while nobody can tell them apart, by changing one.
  std::vector<bool> seen_root = seen_roots(p);
  std::pmr::monotonic_buffer_resource memory;  // for all keys: they go together
  std::pmr::unordered_map<Bytes, size_t> found(&memory);
  found.reserve(p.code.size());
  Kept kept(p.code);
  for (Instruction& i : p.code) {
    for (Read& r : i.reads) r.reg = same[r.reg];
    if (is_the_same(p, i)) {
      same[i.writes[0]] = i.reads[0].reg;
      continue;
    }
    Bytes key = key_of(p, i, &memory);
    bool seen = false;
    for (int w : i.writes) seen |= w >= 0 && seen_root[p.registers[w].root];
    if (!key.empty()) {
      auto [at, fresh] = found.emplace(std::move(key), kept.size());
      if (!fresh && !seen) {
        const Instruction& first = p.code[at->second];
        bool whole = true;  // every result that is wanted is there
        for (size_t k = 0; k < i.writes.size(); ++k)
          whole &= i.writes[k] < 0 || (k < first.writes.size() && first.writes[k] >= 0);
        if (whole) {
          for (size_t k = 0; k < i.writes.size(); ++k) {
            if (i.writes[k] >= 0) same[i.writes[k]] = first.writes[k];
          }
          continue;
        }
      }
    }
    kept.add(i);
  }
  kept.finish();
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
