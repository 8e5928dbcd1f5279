// Read fold.h first.
#include "program/passes/fold.h"

#include <cstring>

#include "program/passes/simplify.h"
#include "program/replay/replay.h"

namespace adjoint {
namespace {

constexpr size_t kLargest = 1 << 20;  // bytes of a constant
constexpr size_t kMost = 4 << 20;     // bytes of all that follow from others

// Whether all elements are the same to the last bit: loops take such a tensor as a number.
bool is_one_number(const Tensor& t) {
  if (t.numel() == 0 || !t.has(kContiguous) || t.pending()) return false;
  const size_t item = t.itemsize(), bytes = static_cast<size_t>(t.numel()) * item;
  return std::memcmp(t->data, t->data + item, bytes - item) == 0;
}

// Puts a constant in place of the instruction that would make it.
void replace(Instruction& i, const Tensor& made) {
  Instruction constant;
  constant.kind = Kind::Constant;
  constant.line = i.line;
  constant.writes = i.writes;
  constant.with_more().constant = made;
  if (is_one_number(made)) constant.more->element = made->data;
  i = std::move(constant);
}

class Folding {
 public:
  explicit Folding(Program& p)
      : p_(p), maker_(p.roots.size(), kNobody), last_(p.roots.size(), -1) {}

  void run() {
    find_makers();
    while (drop_others()) {
    }
    drop_early_reads();
    while (drop_others()) {
    }
    fold_found();
  }

 private:
  static constexpr int kNobody = -1, kOthers = -2;

  int root(int reg) const { return p_.registers[reg].root; }
  bool found(int reg) const { return maker_[root(reg)] >= 0; }

  // Whether an instruction makes its result from numbers that stand in the program.
  bool makes_from_nothing(const Instruction& i) const {
    if (i.kind != Kind::Apply || !i.reads.empty() || i.draws() || i.changes || i.may_fail ||
        i.writes.size() != 1 || i.writes[0] < 0)
      return false;
    const TensorGeometry& g = p_.registers[i.writes[0]].geometry();
    return static_cast<size_t>(g.numel) * item_size(g.dtype) <= kLargest;
  }

  // By root: the instruction that makes it, if that is from nothing; and the last that changes it.
  void find_makers() {
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      if (i.kind == Kind::Alias) continue;
      for (int w : i.writes) {
        if (w < 0) continue;
        int& maker = maker_[root(w)];
        maker = maker == kNobody && makes_from_nothing(i) ? static_cast<int>(k) : kOthers;
      }
      if (i.kind == Kind::Change) last_[root(i.reads[0].reg)] = static_cast<int>(k);
    }
    for (size_t r = 0; r < maker_.size(); ++r) {
      if (p_.roots[r].external) maker_[r] = kOthers;
    }
    for (int r : p_.outputs) {
      if (r >= 0) maker_[root(r)] = kOthers;
    }
  }

  // Memory that something else changes, or that others may keep; whether there was any.
  bool drop_others() {
    bool dropped = false;
    auto drop = [&](int reg) {
      dropped |= found(reg);
      maker_[root(reg)] = kOthers;
    };
    for (const Instruction& i : p_.code) {
      if (i.kind == Kind::Alias || (i.kind == Kind::Apply && !i.changes)) continue;
      bool all = i.kind == Kind::Change && !i.draws() && !i.may_fail;
      for (const Read& r : i.reads) all = all && found(r.reg);
      if (all) continue;
      if (i.kind == Kind::Change) {
        drop(i.reads[0].reg);  // the others are only read
      } else {
        for (const Read& r : i.reads) drop(r.reg);
      }
    }
    return dropped;
  }

  // What is read before it is what it becomes.
  void drop_early_reads() {
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      bool folded = i.kind == Kind::Change && found(i.reads[0].reg);
      if (i.kind == Kind::Alias || folded) continue;
      for (const Read& r : i.reads) {
        if (last_[root(r.reg)] > static_cast<int>(k)) maker_[root(r.reg)] = kOthers;
      }
    }
  }

  // Fills need no memory: loops take them as numbers.
  bool is_worth_it(size_t root) const {
    return maker_[root] >= 0 && (last_[root] >= 0 || !p_.code[maker_[root]].op->facts.fills);
  }

  void fold_found() {
    Program part;
    part.descriptions = p_.descriptions;
    part.registers = p_.registers;
    part.roots = p_.roots;
    part.default_dtype = p_.default_dtype;
    std::vector<int> makers;
    for (size_t r = 0; r < maker_.size(); ++r) {
      if (is_worth_it(r)) makers.push_back(maker_[r]);
    }
    if (makers.empty()) return;
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      bool makes = i.kind == Kind::Apply && !i.writes.empty() && i.writes[0] >= 0 &&
                   maker_[root(i.writes[0])] == static_cast<int>(k);
      bool sees = (i.kind == Kind::Alias || i.kind == Kind::Change) && found(i.reads[0].reg);
      if (makes || sees) part.code.push_back(i);
    }
    for (int k : makers) part.outputs.push_back(p_.code[k].writes[0]);
    Tensors made = adjoint::run(part, {}, {});
    for (size_t n = 0; n < makers.size(); ++n) replace(p_.code[makers[n]], made[n]);
    std::vector<bool> folded(maker_.size());
    for (int reg : part.outputs) {
      folded[root(reg)] = true;
      p_.roots[root(reg)].changed = false;
    }
    std::erase_if(p_.code, [&](const Instruction& i) {
      return i.kind == Kind::Change && folded[root(i.reads[0].reg)];
    });
  }

  Program& p_;
  std::vector<int> maker_, last_;
};

// Ops on constants alone give constants.
class Following {
 public:
  explicit Following(Program& p) : p_(p), known_(p.registers.size()), kept_(seen_roots(p)) {
    for (const Instruction& i : p.code) {
      if (i.kind == Kind::Alias || i.kind == Kind::Constant) continue;
      if (i.kind == Kind::Apply && !i.changes) continue;
      for (const Read& r : i.reads) kept_[root(r.reg)] = true;
    }
  }

  void run() {
    Program part;
    part.descriptions = p_.descriptions;
    part.registers = p_.registers;
    part.roots = p_.roots;
    part.default_dtype = p_.default_dtype;
    std::vector<size_t> found;
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      if (!is_known(i)) continue;
      for (int w : i.writes) known_[w] = true;
      part.code.push_back(i);
      if (i.kind == Kind::Apply) found.push_back(k);
    }
    if (found.empty()) return;
    for (size_t k : found) part.outputs.push_back(p_.code[k].writes[0]);
    Tensors made = adjoint::run(part, {}, {});
    for (size_t n = 0; n < found.size(); ++n) replace(p_.code[found[n]], made[n]);
  }

 private:
  int root(int reg) const { return p_.registers[reg].root; }

  // Whether the results are constants, given those that are known so far.
  bool is_known(const Instruction& i) {
    bool fits = i.kind == Kind::Constant || i.kind == Kind::Alias || i.kind == Kind::Apply;
    if (!fits || i.writes.size() != 1 || i.writes[0] < 0 || kept_[root(i.writes[0])]) return false;
    if (i.kind == Kind::Constant) return true;
    if (i.kind == Kind::Apply && (i.reads.empty() || i.draws() || i.changes || i.may_fail))
      return false;
    for (const Read& r : i.reads) {
      if (!known_[r.reg]) return false;
    }
    if (i.kind == Kind::Alias) return true;
    // A result that shares its memory with an operand is a view, made each time; a fill is a number.
    if (i.op->facts.fills || root(i.writes[0]) == root(i.reads[0].reg)) return false;
    const TensorGeometry& g = p_.registers[i.writes[0]].geometry();
    const size_t bytes = static_cast<size_t>(g.numel) * item_size(g.dtype);
    if (bytes > kLargest || bytes_ + bytes > kMost) return false;
    bytes_ += bytes;
    return true;
  }

  Program& p_;
  std::vector<bool> known_, kept_;  // registers that are constants; memory that others get to see
  size_t bytes_ = 0;
};

}  // namespace

void fold(Program& p) {
  Folding(p).run();
  Following(p).run();
}

}  // namespace adjoint
