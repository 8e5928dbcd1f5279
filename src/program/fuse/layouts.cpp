// Read layouts.h first.
#include "program/fuse/layouts.h"

#include "dispatch/elementwise_forward.h"
#include "kernels/reduce/reduce.h"
#include "kernels/short_rows.h"

namespace adjoint {
namespace {

constexpr int64_t kShort = 8;     // an axis that is put outermost has at most so many elements,
constexpr int64_t kLong = 16;     // and the others together at least so many
constexpr int64_t kTree = 8;      // rows that sums by columns add as a tree
constexpr int64_t kNoFold = 128;  // rows from which on they fold: see kernels/reduce/reduce.cpp

int64_t item_of(DType d) { return static_cast<int64_t>(item_size(d)); }

// Short axes outermost, the others after them: strides, in elements.
Dims short_first(const Dims& shape, int first_short) {
  Dims strides(shape.size(), 0);
  int64_t step = 1;
  for (int i = first_short - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  for (int i = shape.size() - 1; i >= first_short; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

// Axes in the order in which they lie in memory, outermost first; not those of length one.
std::vector<int> memory_order(const Dims& shape, const Dims& strides) {
  std::vector<int> axes;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) axes.push_back(i);
  }
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  return axes;
}

bool by_columns(const reduce::Problem& p) {
  const reduce::Axes &k = p.kept, &r = p.reduced;
  int64_t kept = k.count ? k.stride[k.count - 1] : 0, reduced = r.stride[r.count - 1];
  return k.count > 0 && kept != 0 && (reduced == 0 || kept < reduced);
}

}  // namespace

KernelSum kernel_sum(const FoldedRows& f) {
  static const Kernel& kernel = kernel_named("sum_rows_as_columns");
  const DType d = f.narrow ? DType::Float32 : DType::Float64;
  return {kernel.loop[static_cast<int>(d)], SummedRows{f.length, f.step, f.divisor}, f.rows};
}
void fold_rows(char* const* p, int64_t) {
  KernelSum sum = kernel_sum(*reinterpret_cast<const FoldedRows*>(p[0]));
  char* const arguments[] = {p[1], p[2], reinterpret_cast<char*>(&std::get<SummedRows>(sum.about))};
  sum.loop(arguments, sum.n);
}

// --- what may move -------------------------------------------------------------------------------
void Layouts::find_candidates(std::span<const Member> members,
                              const std::function<bool(int)>& own) {
  moved_.clear();
  at_.assign(p_.registers.size(), -1);
  for (const Member& m : members) {
    int reg = m.i->writes[0];
    const TensorGeometry& g = sources_.geometry(reg);
    bool made = m.i->kernel || m.i->sum();
    if (!made || g.numel == 0 || !own(reg) || !g.contiguous || sources_.changed(reg) ||
        sources_.of(reg).reg != reg)
      continue;
    int first = g.shape.size();
    int64_t inner = 1;
    while (first > 0 && inner * g.shape[first - 1] <= kShort) inner *= g.shape[--first];
    if (inner == 1 || g.numel / inner < kLong) continue;
    at_[reg] = static_cast<int>(moved_.size());
    moved_.push_back({g, g.strides});
    moved_.back().to.strides = short_first(g.shape, first);
    moved_.back().to.contiguous = false;
  }
}

// An axis as axes of a value in its new order, outermost first: several where it runs through more
// than one. `start`: the index that it starts from.
bool Layouts::split(const Moved& base, const int64_t* start, Axis axis, AxisList* parts) const {
  const Dims& shape = base.to.shape;
  const int64_t item = item_of(base.to.dtype);
  if (axis.size == 1) return true;
  if (axis.stride <= 0) {
    parts->push_back(axis);
    return axis.stride == 0;
  }
  int at = -1;  // the outermost axis whose steps it is made of
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && axis.stride % (base.from[i] * item) == 0 &&
        (at < 0 || base.from[i] > base.from[at]))
      at = i;
  }
  if (at < 0) return false;
  int64_t times = axis.stride / (base.from[at] * item);
  if (start[at] + times * (axis.size - 1) < shape[at]) {
    parts->push_back({axis.size, times * base.to.strides[at] * item});
    return true;
  }
  if (times != 1 || start[at] != 0 || axis.size % shape[at] != 0) return false;
  if (!split(base, start, {axis.size / shape[at], axis.stride * shape[at]}, parts)) return false;
  parts->push_back({shape[at], base.to.strides[at] * item});
  return true;
}

// How a register, which may be a view, looks when what it views has moved.
bool Layouts::seen_in_new_order(int reg, Seen* seen) const {
  const Source& s = sources_.of(reg);
  const Moved& base = *moved(s.reg);
  const TensorGeometry& g = sources_.geometry(reg);
  const int64_t item = item_of(base.to.dtype);
  if (g.dtype != base.to.dtype || s.offset < 0 || s.offset % item != 0) return false;
  std::vector<int64_t> start(static_cast<size_t>(base.to.shape.size()));
  int64_t left = s.offset / item;
  for (int i : memory_order(base.to.shape, base.from)) {
    start[i] = left / base.from[i];
    left %= base.from[i];
    if (start[i] >= base.to.shape[i]) return false;
  }
  if (left != 0) return false;
  std::vector<int64_t> end = start;  // of what other axes have walked
  seen->strides = g.strides;
  for (int n = 0; n < g.shape.size(); ++n) {
    if (g.shape[n] == 1) continue;
    AxisList parts;
    if (!split(base, end.data(), {g.shape[n], g.strides[n] * item}, &parts) || parts.empty())
      return false;
    for (size_t k = 0; k + 1 < parts.size(); ++k) {
      if (parts[k].stride != parts[k + 1].stride * parts[k + 1].size) return false;
    }
    seen->strides[n] = parts.back().stride / item;
    for (const Axis& a : parts) {
      for (int i = 0; a.stride > 0 && i < base.to.shape.size(); ++i) {
        int64_t step = base.to.strides[i] * item;
        bool whole = base.to.shape[i] > 1 && a.stride % step == 0 &&
                     a.stride / step * (a.size - 1) < base.to.shape[i];
        if (whole) end[i] += a.stride / step * (a.size - 1);
      }
    }
  }
  seen->offset = 0;
  for (int i = 0; i < base.to.shape.size(); ++i)
    seen->offset += start[i] * base.to.strides[i] * item;
  return true;
}

// The sum once more, of an operand or with a result in the new order: in the same order of adding.
bool Layouts::new_sum(const Member& m, SmallCall* call) const {
  const reduce::Problem& was = *m.i->sum();
  const Moved *in = moved(sources_.of(m.reads[0].reg).reg), *out = moved(m.i->writes[0]);
  const TensorGeometry& g = sources_.geometry(m.i->writes[0]);
  bool known = (was.dtype == DType::Float32 || was.dtype == DType::Float64) &&
               was.accumulator == was.dtype && was.out_dtype == was.dtype &&
               was.kind == reduce::Sum && !was.centre && was.reduced.count == 1;
  if (!known) return false;
  AxisList kept, reduced;
  std::vector<int64_t> start(kMaxDims);
  auto add = [&](const reduce::Axes& axes, AxisList* to) {
    for (int k = 0; k < axes.count; ++k) {
      Axis axis{axes.size[k], axes.stride[k]};
      if (axis.size == 1) continue;
      if (axis.stride <= 0) return false;
      if (!in)
        to->push_back(axis);
      else if (!split(*in, start.data(), axis, to))
        return false;
    }
    return true;
  };
  if (in && sources_.of(m.reads[0].reg).offset != 0) return false;
  if (!add(was.kept, &kept) || !add(was.reduced, &reduced) || reduced.size() != 1) return false;
  if (out) {  // results lie in the order of the kept axes
    std::vector<int> before = memory_order(g.shape, out->from),
                     now = memory_order(g.shape, out->to.strides);
    if (before.size() != kept.size()) return false;
    AxisList turned;
    for (int axis : now) {
      size_t place = std::find(before.begin(), before.end(), axis) - before.begin();
      if (kept[place].size != g.shape[axis]) return false;
      turned.push_back(kept[place]);
    }
    kept = turned;
  }
  reduce::Problem p = was;
  p.kept.count = 0;
  for (const Axis& a : kept) {
    reduce::Axes& k = p.kept;
    if (k.count && k.stride[k.count - 1] == a.stride * a.size) {
      k.size[k.count - 1] *= a.size;
      k.stride[k.count - 1] = a.stride;
    } else {
      k.size[k.count] = a.size;
      k.stride[k.count++] = a.stride;
    }
  }
  p.reduced.count = 1;
  p.reduced.size[0] = reduced[0].size;
  p.reduced.stride[0] = reduced[0].stride;
  const int64_t rows = reduced[0].size, item = item_of(p.dtype);
  const bool columns_before = by_columns(was), columns_now = by_columns(p);
  if (rows >= kNoFold) return false;
  bool same = columns_before ? columns_now : columns_now ? rows < kTree : true;
  if (same) {
    if (call) call->what = std::make_shared<reduce::Problem>(p);
    return true;
  }
  if (!columns_before || p.kept.count != 1 || reduced[0].stride != item ||
      p.kept.stride[0] % item != 0)
    return false;
  if (call) {
    FoldedRows f{p.kept.size[0], rows, p.kept.stride[0], p.divisor, p.dtype == DType::Float32};
    call->what = std::make_shared<FoldedRows>(f);
    call->loop = fold_rows;
  }
  return true;
}

// Whether a member gives the same with the order of its operands and results as it is now.
bool Layouts::keeps(const Member& m) const {
  bool any = moved(m.i->writes[0]) != nullptr;
  Seen seen;
  for (const Read& r : m.reads) {
    if (!moved(sources_.of(r.reg).reg)) continue;
    any = true;
    if (!seen_in_new_order(r.reg, &seen)) return false;
  }
  if (!any || !m.call) return true;
  return m.i->sum() && new_sum(m, nullptr);
}

void Layouts::choose(std::span<const Member> members, const std::function<bool(int)>& own) {
  find_candidates(members, own);
  if (moved_.empty()) return;
  for (bool dropped = true; dropped;) {
    dropped = false;
    for (const Member& m : members) {
      if (keeps(m)) continue;
      dropped = true;
      at_[m.i->writes[0]] = -1;
      for (const Read& r : m.reads) at_[sources_.of(r.reg).reg] = -1;
    }
  }
  std::vector<bool> done(p_.registers.size());
  std::vector<std::pair<int, Seen>> views;
  for (const Member& m : members) {
    bool any = moved(m.i->writes[0]) != nullptr;
    for (const Read& r : m.reads) {
      const Source& s = sources_.of(r.reg);
      if (!moved(s.reg)) continue;
      any = true;
      if (r.reg == s.reg || done[r.reg]) continue;
      done[r.reg] = true;
      views.emplace_back(r.reg, Seen());
      seen_in_new_order(r.reg, &views.back().second);
    }
    if (any && m.call) new_sum(m, m.call);
  }
  for (const auto& [reg, seen] : views) {
    forms_.push_back(sources_.geometry(reg));
    forms_.back().strides = seen.strides;
    forms_.back().contiguous = false;
    p_.registers[reg].form = &forms_.back();
    sources_.move(reg, seen.offset);
  }
  for (size_t reg = 0; reg < at_.size(); ++reg) {
    if (at_[reg] < 0) continue;
    forms_.push_back(moved_[at_[reg]].to);
    p_.registers[reg].form = &forms_.back();
  }
}

}  // namespace adjoint
