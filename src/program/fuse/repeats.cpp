// Read repeats.h first.
#include "program/fuse/repeats.h"

#include <map>

#include "program/passes/sources.h"

namespace adjoint {
namespace {

constexpr int64_t kLeast = 256;  // elements of a value that is worth it
constexpr int64_t kSmaller = 4;  // times it is larger than each value it is made of,
constexpr int64_t kFarBytes =
    1 << 17;                      // or those are read nearby: with fewer bytes written between,
constexpr int64_t kFarTimes = 8;  // or so many times its own

int64_t bytes_of(const TensorGeometry& g) {
  return g.numel * static_cast<int64_t>(item_size(g.dtype));
}

class Repeats {
 public:
  explicit Repeats(Program& p) : p_(p), sources_(p), is_output_(p.registers.size()) {
    for (int r : p.outputs) {
      if (r >= 0) is_output_[sources_.of(r).reg] = true;
    }
    clock_.reserve(p.code.size());
    int64_t written = 0;
    for (size_t k = 0; k < p.code.size(); ++k) {
      const Instruction& i = p.code[k];
      clock_.push_back(written);
      if (i.kind == Kind::Alias) continue;
      for (int w : i.writes) written += w < 0 ? 0 : bytes_of(sources_.geometry(w));
    }
    found_ = written > kFarBytes;
  }

  std::vector<bool> run() {
    if (!found_) return std::vector<bool>(p_.code.size());
    find_values();
    if (values_.empty()) return std::vector<bool>(p_.code.size());
    find_reads();
    std::vector<Instruction> code;
    std::vector<bool> repeated;
    code.reserve(p_.code.size());
    for (size_t k = 0; k < p_.code.size(); ++k) {
      Instruction& i = p_.code[k];
      for (Read& r : i.reads) {
        auto at = values_.find(r.reg);
        if (at == values_.end() || i.kind == Kind::Alias) continue;
        Value& v = at->second;
        bool far = clock_[k] - v.touched > far_from(r.reg);
        v.touched = clock_[k];
        if (far && can_repeat(v, r.reg, k)) {
          code.push_back(once_more(v, r.reg));
          repeated.push_back(true);
        }
        r.reg = v.now;
      }
      code.push_back(std::move(i));
      repeated.push_back(false);
    }
    p_.code = std::move(code);
    return repeated;
  }

 private:
  struct Value {
    Instruction made;  // as it was recorded
    int now;           // the register that holds it
    int64_t touched;   // when it was made or read
  };

  bool unchanged(int reg) const { return !sources_.changed(reg); }

  void find_values() {
    for (size_t k = 0; k < p_.code.size(); ++k) {
      const Instruction& i = p_.code[k];
      if (i.kind != Kind::Apply || !i.kernel || i.changes || i.has_table() || i.draws() ||
          !i.op->facts.cheap || i.writes.size() != 1 || i.writes[0] < 0)
        continue;
      const int reg = i.writes[0];
      const int64_t numel = sources_.geometry(reg).numel;
      if (numel < kLeast || numel >= kBlockNumel || is_output_[reg] || !unchanged(reg)) continue;
      bool fits = true;
      for (const Read& r : i.reads) fits &= unchanged(r.reg) && !sources_.geometry(r.reg).pending;
      if (fits) values_.emplace(reg, Value{i, reg, clock_[k]});
    }
  }

  // When what values are made of is read, through views too.
  void find_reads() {
    for (const auto& [reg, v] : values_) {
      for (const Read& r : v.made.reads) reads_.try_emplace(sources_.of(r.reg).reg);
    }
    for (size_t k = 0; k < p_.code.size(); ++k) {
      if (p_.code[k].kind == Kind::Alias) continue;
      for (const Read& r : p_.code[k].reads) {
        auto at = reads_.find(sources_.of(r.reg).reg);
        if (at != reads_.end()) at->second.push_back(k);
      }
    }
  }

  int64_t far_from(int reg) const {
    return std::max(kFarBytes, kFarTimes * bytes_of(sources_.geometry(reg)));
  }

  // Whether the loops of instruction `k` may compute it: what it is made of is small, or read there.
  bool can_repeat(const Value& v, int reg, size_t k) const {
    const Instruction& i = p_.code[k];
    const TensorGeometry& g = sources_.geometry(reg);
    if (i.kind != Kind::Apply || !i.kernel || i.changes || i.writes.size() != 1 ||
        i.writes[0] < 0 || !(sources_.geometry(i.writes[0]).shape == g.shape))
      return false;
    for (const Read& r : v.made.reads) {
      int from = sources_.of(r.reg).reg;
      if (sources_.uniform(r.reg) || bytes_of(sources_.geometry(from)) * kSmaller <= bytes_of(g))
        continue;
      const std::vector<size_t>& all = reads_.at(from);
      auto next = std::lower_bound(all.begin(), all.end(), k);
      if (next == all.end() || clock_[*next] - clock_[k] > far_from(reg)) return false;
    }
    return true;
  }

  Instruction once_more(Value& v, int reg) {
    Instruction made = v.made;
    Register r = p_.registers[reg];
    r.offset = 0;
    r.root = static_cast<int>(p_.roots.size());
    p_.roots.emplace_back();
    v.now = made.writes[0] = static_cast<int>(p_.registers.size());
    p_.registers.push_back(r);
    return made;
  }

  Program& p_;
  Sources sources_;
  std::vector<bool> is_output_;
  std::vector<int64_t> clock_;  // by instruction: bytes written before it
  bool found_ = false;
  std::map<int, Value> values_;               // by register
  std::map<int, std::vector<size_t>> reads_;  // by register: instructions
};

}  // namespace

std::vector<bool> repeat_far(Program& p) { return Repeats(p).run(); }

}  // namespace adjoint
