// Read rolled_code.h first.
//
// Every value has a number. A loop runs ops [first, first + period) again and again; the operand of an
// op has a number that is the same in each run, or grows or falls by as much. Values of this
// run and of the one before stay in registers; all others are read from a table of values by
// number, and those that somebody reads there are stored there.
#include "program/native/rolled_code.h"

#include <map>
#include <set>

#include "kernels/convert.h"
#include "program/native/formulas.h"
#include "program/native/tile_body.h"
#include "program/native/vectors.h"

namespace adjoint::native {
namespace {

using Place = TileLoops::Place;
using Argument = TileLoops::Argument;

constexpr size_t kMostOps = 192;  // that are not in loops, and those of the bodies
constexpr size_t kLongest = 48;   // period
constexpr size_t kLeastRuns = 8;
constexpr size_t kMostValues = 1 << 22;

// An operand: a value that an op makes, a number, or memory.
struct Ref {
  enum : uint8_t { Value, Number, Memory } kind = Value;
  int64_t index = 0;  // of a value: the op, and for its second result as many more as there are ops
  DType dtype = DType::Float32;
};
struct Op {
  const Formula* formula = nullptr;  // null: a copy or a conversion
  DType dtype = DType::Float32;      // that the formula works on
  std::vector<Ref> operands;
  DType results[2] = {DType::Float32, DType::Float32};
  int count = 1;       // of the results
  int64_t place = -1;  // memory that the first result is written to
};

struct LoopOfOps {
  size_t first, period, runs;
};

// The ops of a group, in order.
class OpList {
 public:
  explicit OpList(const TileLoops& f) : f_(f), tiles_(f.tiles), places_(f.places.size()) {
    for (size_t k = 0; k < f.places.size(); ++k) {
      const Place& p = f.places[k];
      places_[k] = {Ref::Memory, static_cast<int64_t>(k), p.wanted};
      if (p.way == TileLoops::Way::Repeated || p.way == TileLoops::Way::Again)
        tiles_[p.tile] = places_[k];
    }
    for (const TileLoops::Action& a : f.actions) add(a);
    for (Op& op : ops)
      for (Ref& r : op.operands)
        if (r.kind == Ref::Value && r.index < 0)
          r.index = ~r.index + static_cast<int64_t>(ops.size());
  }

  std::vector<Op> ops;

 private:
  void add(const TileLoops::Action& a) {
    if (!a.loop) {
      Ref& tile = tiles_[f_.places[a.at].tile];
      if (!f_.places[a.at].written) {
        tile = places_[a.at];
        return;
      }
      // A value that is made already goes to memory: as a copy.
      Op copy;
      copy.results[0] = f_.places[a.at].dtype;
      copy.operands.push_back(tile);
      copy.place = static_cast<int64_t>(a.at);
      ops.push_back(std::move(copy));
      return;
    }
    const Argument* arguments = f_.arguments.data() + a.at;
    Known known = formula_of(a.loop);
    Op op;
    op.formula = known.formula;
    op.dtype = known.dtype;
    op.count = known.formula ? known.formula->results : 1;
    int inputs = known.formula ? known.formula->inputs : 1;
    for (int k = 0; k < inputs; ++k) op.operands.push_back(ref(arguments[op.count + k]));
    auto number = static_cast<int64_t>(ops.size());
    for (int k = 0; k < op.count; ++k) {
      op.results[k] = arguments[k].dtype;
      Ref made{Ref::Value, k ? ~number : number, arguments[k].dtype};  // ~: see the constructor
      if (arguments[k].kind == Argument::Tile) {
        tiles_[arguments[k].index] = made;
      } else {
        places_[arguments[k].index] = made;
        if (k == 0)
          op.place = arguments[k].index;
        else
          second_places_ = true;
      }
    }
    ops.push_back(std::move(op));
  }
  Ref ref(const Argument& a) const {
    if (a.kind == Argument::Number) return {Ref::Number, a.index, a.dtype};
    Ref r = a.kind == Argument::Tile ? tiles_[a.index] : places_[a.index];
    r.dtype = a.dtype;
    return r;
  }

  const TileLoops& f_;
  std::vector<Ref> tiles_, places_;

 public:
  bool second_places_ = false;  // a second result goes to memory, which nobody does
};

// --- what repeats --------------------------------------------------------------------------------
class Periods {
 public:
  explicit Periods(const std::vector<Op>& ops) : ops_(ops) {}

  std::vector<LoopOfOps> find() const {
    std::vector<LoopOfOps> loops;
    for (size_t k = 0; k < ops_.size();) {
      LoopOfOps best{k, 0, 0};
      for (size_t period = 1; period <= kLongest; ++period) {
        size_t runs = runs_of(k, period);
        if (runs >= kLeastRuns && runs * period > best.runs * best.period) best = {k, period, runs};
      }
      if (best.runs == 0) {
        ++k;
        continue;
      }
      loops.push_back(best);
      k += best.runs * best.period;
    }
    return loops;
  }

 private:
  // How often ops [first, first + period) repeat.
  size_t runs_of(size_t first, size_t period) const {
    size_t end = first + period;
    while (end < ops_.size() && is_next(end, first, period)) ++end;
    return (end - first) / period;
  }
  bool is_next(size_t at, size_t first, size_t period) const {
    const Op &now = ops_[at], &before = ops_[at - period];
    if (now.formula != before.formula || now.dtype != before.dtype || now.place >= 0 ||
        before.place >= 0 || now.results[0] != before.results[0] ||
        now.operands.size() != before.operands.size())
      return false;
    for (size_t k = 0; k < now.operands.size(); ++k) {
      const Ref &a = now.operands[k], &b = before.operands[k];
      if (a.kind != b.kind || a.dtype != b.dtype) return false;
      if (a.kind != Ref::Value) {
        if (a.index != b.index) return false;
        continue;
      }
      int64_t step = a.index - b.index;
      if (at - first < 2 * period) continue;
      if (step != b.index - ops_[at - 2 * period].operands[k].index) return false;
    }
    return true;
  }
  const std::vector<Op>& ops_;
};

// --- code ----------------------------------------------------------------------------------------
class RolledCode {
 public:
  RolledCode(const TileLoops& f, const OpList& list)
      : f_(f),
        ops_(list.ops),
        loops_(Periods(list.ops).find()),
        count_(static_cast<int64_t>(list.ops.size())) {}

  std::optional<std::string> write(const std::string& name) {
    if (!is_worthwhile()) return {};
    vectors_.emplace(code_, width_for(f_.numel, widest_item(f_)));
    if (f_.numel < vectors_->width()) mask_ = vectors_->first_lanes(static_cast<int>(f_.numel));
    room_ = joined("@room_", name);
    find_stored();
    size_t loop = 0;
    for (size_t k = 0; k < ops_.size();) {
      if (loop < loops_.size() && loops_[loop].first == k) {
        write_loop(loops_[loop]);
        k += loops_[loop].period * loops_[loop].runs;
        ++loop;
      } else {
        write_one(static_cast<int64_t>(k++));
      }
    }
    int64_t bytes = 2 * count_ * bytes_of_value();
    return joined(room_, " = internal global [", bytes, " x i8] zeroinitializer, align 64\n",
                  code_.function(name, "ptr %data, i64 %n"));
  }

 private:
  bool is_worthwhile() const {
    size_t in_loops = 0, written = 0;
    for (const LoopOfOps& l : loops_) {
      in_loops += l.period * l.runs;
      written += l.period;
    }
    return !loops_.empty() && ops_.size() - in_loops + written <= kMostOps;
  }
  int64_t bytes_of_value() const {
    return static_cast<int64_t>(widest_item(f_)) * vectors_->width();
  }
  const LoopOfOps* loop_of(int64_t value) const {
    auto op = static_cast<size_t>(value % count_);
    for (const LoopOfOps& l : loops_)
      if (op >= l.first && op < l.first + l.period * l.runs) return &l;
    return nullptr;
  }
  int64_t step_of(const LoopOfOps& l, size_t op, size_t operand) const {
    return ops_[op + l.period].operands[operand].index - ops_[op].operands[operand].index;
  }
  // Of an operand in a loop: made in the same run, or in the run before.
  enum class From : uint8_t { Now, Before, Table };
  From from(const LoopOfOps& l, const Ref& r, int64_t step) const {
    auto op = r.index % count_, first = static_cast<int64_t>(l.first),
         period = static_cast<int64_t>(l.period);
    if (step != period) return From::Table;
    return op >= first ? From::Now : op >= first - period ? From::Before : From::Table;
  }

  // Values that are read from the table, or from another loop than their own.
  void find_stored() {
    auto store = [&](int64_t value) {
      const LoopOfOps* l = loop_of(value);
      if (!l) return void(stored_.insert(value));
      int64_t bank = value / count_ * count_, op = value % count_;
      stored_.insert(bank + static_cast<int64_t>(l->first) +
                     (op - static_cast<int64_t>(l->first)) % static_cast<int64_t>(l->period));
    };
    size_t loop = 0;
    for (size_t k = 0; k < ops_.size();) {
      const LoopOfOps* l =
          loop < loops_.size() && loops_[loop].first == k ? &loops_[loop++] : nullptr;
      for (size_t j = k; j < k + (l ? l->period : 1); ++j) {
        for (size_t n = 0; n < ops_[j].operands.size(); ++n) {
          const Ref& r = ops_[j].operands[n];
          if (r.kind != Ref::Value) continue;
          if (!l) {
            if (loop_of(r.index)) store(r.index);
            continue;
          }
          int64_t step = step_of(*l, j, n);
          From where = from(*l, r, step);
          if (where == From::Before && loop_of(r.index)) store(r.index);
          if (where != From::Table) continue;
          if (step == 0) {
            if (loop_of(r.index)) store(r.index);
            continue;
          }
          for (size_t run = 0; run < l->runs; ++run)
            store(r.index + static_cast<int64_t>(run) * step);
        }
      }
      k += l ? l->period * l->runs : 1;
    }
  }
  bool is_stored(int64_t value) const { return stored_.count(value) > 0; }

  std::string table(int64_t value, const std::string& run, int64_t step) {
    std::string at =
        code_.value("getelementptr i8, ptr ", room_, ", i64 ", value * bytes_of_value());
    return step ? vectors_->moved(at, run, step * bytes_of_value()) : at;
  }
  std::string read(const Ref& r, const std::string& at) {
    return code_.value("load ", vectors_->value_type(r.dtype), ", ptr ", at);
  }
  void put(int64_t value, DType d, const std::string& name, const std::string& run, int64_t step) {
    code_.line("store ", vectors_->value_type(d), " ", name, ", ptr ", table(value, run, step));
  }

  // An operand that is the same in all runs, or outside loops.
  std::string fixed(const Ref& r) {
    switch (r.kind) {
      case Ref::Number: {
        const TileLoops::Number& n = f_.numbers[static_cast<size_t>(r.index)];
        if (n.dtype == DType::Bool)
          return vectors_->lanes(DType::Float32).all(n.bytes[0] ? "i1 true" : "i1 false");
        return vectors_->lanes(n.dtype).number(load_double(n.dtype, n.bytes)).name;
      }
      case Ref::Memory:
        return load(static_cast<size_t>(r.index));
      default:
        return loop_of(r.index) ? read(r, table(r.index, "", 0)) : names_.at(r.index);
    }
  }
  std::string pointer(size_t place) {
    std::string& known = pointers_[place];
    if (known.empty())
      known =
          code_.first("load ptr, ptr ", code_.first("getelementptr ptr, ptr %data, i64 ", place));
    return known;
  }
  int64_t step(const Place& p) const { return f_.shape.empty() ? 0 : p.strides.back(); }
  std::string load(size_t place) {
    const Place& p = f_.places[place];
    bool repeated = vectors_->width() > 1 && step(p) == 0;
    std::string v = repeated ? vectors_->load_repeated(p.dtype, pointer(place))
                             : vectors_->load(p.dtype, pointer(place), step(p), mask_);
    return vectors_->as_dtype(v, p.dtype, p.wanted);
  }

  void compute(const Op& op, const std::vector<std::string>& operands, std::string* out) {
    if (!op.formula) {
      out[0] = vectors_->as_dtype(operands[0], op.operands[0].dtype, op.results[0]);
      return;
    }
    Value in[4];
    for (size_t k = 0; k < operands.size(); ++k) in[k] = {operands[k], op.operands[k].dtype};
    op.formula->write(vectors_->lanes(op.dtype), in, out);
  }

  void write_one(int64_t k) {
    const Op& op = ops_[static_cast<size_t>(k)];
    std::vector<std::string> operands;
    for (const Ref& r : op.operands) operands.push_back(fixed(r));
    std::string out[2];
    compute(op, operands, out);
    for (int n = 0; n < op.count; ++n) {
      int64_t value = k + n * count_;
      names_[value] = out[n];
      if (is_stored(value)) put(value, op.results[n], out[n], "", 0);
    }
    if (op.place >= 0) {
      auto place = static_cast<size_t>(op.place);
      vectors_->store(op.results[0], out[0], pointer(place), step(f_.places[place]), mask_);
    }
  }

  void write_loop(const LoopOfOps& l) {
    const auto first = static_cast<int64_t>(l.first), period = static_cast<int64_t>(l.period);
    // Before the loop: what is the same in all runs, and what the first run has from the one before.
    std::map<std::pair<size_t, size_t>, std::string> before;  // by op and operand
    std::map<int64_t, std::string> starts;
    for (size_t j = l.first; j < l.first + l.period; ++j) {
      for (size_t n = 0; n < ops_[j].operands.size(); ++n) {
        const Ref& r = ops_[j].operands[n];
        int64_t s = r.kind == Ref::Value ? step_of(l, j, n) : 0;
        From where = r.kind == Ref::Value ? from(l, r, s) : From::Table;
        if (where == From::Before)
          starts.try_emplace(r.index, fixed(r));
        else if (where == From::Table && s == 0)
          before[{j, n}] = fixed(r);
      }
    }
    std::vector<Code::Carried> carried;
    std::map<int64_t, size_t> carried_at;
    for (auto& [value, name] : starts) {
      carried_at[value] = carried.size();
      DType d = ops_[static_cast<size_t>(value % count_)].results[value / count_];
      carried.push_back({vectors_->value_type(d), name});
    }
    code_.loop_of(joined(l.runs), carried,
                  [&](const std::string& run, const std::vector<std::string>& values) {
                    std::map<int64_t, std::string> now;  // of this run
                    for (size_t j = l.first; j < l.first + l.period; ++j) {
                      const Op& op = ops_[j];
                      std::vector<std::string> operands;
                      for (size_t n = 0; n < op.operands.size(); ++n) {
                        const Ref& r = op.operands[n];
                        int64_t s = r.kind == Ref::Value ? step_of(l, j, n) : 0;
                        From where = r.kind == Ref::Value ? from(l, r, s) : From::Table;
                        operands.push_back(where == From::Now      ? now.at(r.index)
                                           : where == From::Before ? values[carried_at.at(r.index)]
                                           : s == 0 ? before.at({j, n})
                                                    : read(r, table(r.index, run, s)));
                      }
                      std::string out[2];
                      compute(op, operands, out);
                      for (int n = 0; n < op.count; ++n) {
                        int64_t value = static_cast<int64_t>(j) + n * count_;
                        now[value] = out[n];
                        if (is_stored(value)) put(value, op.results[n], out[n], run, period);
                      }
                    }
                    std::vector<std::string> next;
                    for (auto& [value, name] : starts) next.push_back(now.at(value + period));
                    return next;
                  });
    (void)first;
  }

  const TileLoops& f_;
  const std::vector<Op>& ops_;
  std::vector<LoopOfOps> loops_;
  int64_t count_;
  Code code_;
  std::optional<Vectors> vectors_;
  std::string mask_, room_;
  std::set<int64_t> stored_;              // values; of a loop those of its first run, for all
  std::map<int64_t, std::string> names_;  // of values outside loops
  std::map<size_t, std::string> pointers_;
};

}  // namespace

std::optional<std::string> rolled_code(const TileLoops& f, const std::string& name) {
  const bool one_vector = f.shape.size() <= 1 && f.sums.empty() && f.assemblies.empty() &&
                          f.numel * static_cast<int64_t>(widest_item(f)) <= vector_bytes();
  if (!one_vector || f.actions.size() > kMostValues) return {};
  OpList list(f);
  if (list.second_places_) return {};
  return RolledCode(f, list).write(name);
}

}  // namespace adjoint::native
