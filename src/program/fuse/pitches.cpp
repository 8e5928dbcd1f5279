// Read pitches.h first.
#include "program/fuse/pitches.h"

#include "program/fuse/loop_parts.h"

namespace adjoint {
namespace {

constexpr int64_t kShortestRow = 16;

// Strides of rows that lie `pitch` elements apart.
Dims pitched_strides(const Dims& shape, int64_t pitch) {
  Dims strides(shape.size(), 1);
  int64_t step = pitch;
  for (int i = shape.size() - 2; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

// The pitch of a tensor whose rows lie evenly apart; 0 for others.
int64_t pitch_of(const TensorGeometry& g) {
  const int last = g.shape.size() - 1;
  if (last < 1 || g.strides[last] != 1) return 0;
  int64_t pitch = 0, step = 0;
  for (int i = last - 1; i >= 0; --i) {
    if (g.shape[i] == 1) continue;
    if (!pitch) pitch = step = g.strides[i];
    if (g.strides[i] != step) return 0;
    step *= g.shape[i];
  }
  return pitch;
}

// Whether two shapes differ in nothing but axes of length one.
bool is_alike(const Dims& a, const Dims& b) {
  int i = 0, j = 0;
  while (true) {
    while (i < a.size() && a[i] == 1) ++i;
    while (j < b.size() && b[j] == 1) ++j;
    if (i == a.size() || j == b.size()) return i == a.size() && j == b.size();
    if (a[i++] != b[j++]) return false;
  }
}

bool is_worth_it(int64_t row, int64_t pitch) {
  return row >= kShortestRow && pitch > row && pitch - row <= row / 4;
}

}  // namespace

// Notes a register that shows all of its source, but for axes of length one; false for others.
bool Pitches::note_view(int reg) {
  const Source& s = sources_.of(reg);
  if (s.reg == reg) return true;
  const TensorGeometry &seen = sources_.geometry(reg), &of = sources_.geometry(s.reg);
  if (s.offset || !seen.contiguous || seen.dtype != of.dtype || !is_alike(seen.shape, of.shape))
    return false;
  views_.push_back(reg);
  return true;
}

void Pitches::find_readers(const std::vector<Group>& groups) {
  views_.clear();
  made_in_.assign(p_.registers.size(), -1);
  fixed_.assign(p_.registers.size(), false);
  box_pitch_.assign(p_.registers.size(), 0);
  for (size_t n = 0; n < groups.size(); ++n) {
    for (const Instruction* i : groups[n].members) made_in_[i->writes[0]] = static_cast<int>(n);
  }
  for (const Group& g : groups) {
    for (const Instruction* i : g.members) {
      for (const Read& r : i->reads) {
        const int source = sources_.of(r.reg).reg;
        const SourceBoxes* boxes = g.shape.empty() ? nullptr : boxed_.of(source);
        if (!boxes) {
          bool whole = !g.shape.empty() && is_alike(sources_.geometry(r.reg).shape, g.shape);
          if (!whole || !note_view(r.reg)) fixed_[source] = true;
          continue;
        }
        for (const SourceBox& box : *boxes) {
          if (box.reg < 0) continue;
          const int from = sources_.of(box.reg).reg;
          if (!note_view(box.reg)) fixed_[from] = true;
          box_pitch_[from] = g.shape[g.shape.size() - 1];
        }
      }
    }
  }
}

// The pitch of what a group reads, or of what it is read as a box of.
int64_t Pitches::wanted_pitch(const Group& g) const {
  if (g.shape.size() < 2) return 0;
  const int64_t row = g.shape[g.shape.size() - 1];
  int64_t found = 0;
  for (const Instruction* i : g.members) {
    if (!i->kernel || divides_integers(*i->kernel)) return 0;
    if (is_worth_it(row, box_pitch_[i->writes[0]])) found = box_pitch_[i->writes[0]];
    for (const Read& r : i->reads) {
      if (boxed_.of(sources_.of(r.reg).reg)) return 0;
      const TensorGeometry& seen = sources_.geometry(r.reg);
      if (!found && is_alike(seen.shape, g.shape) && is_worth_it(row, pitch_of(seen)))
        found = pitch_of(seen);
    }
  }
  return found;
}

// Whether rows and gaps of an operand can be read as those of the group.
bool Pitches::can_read(const Group& g, size_t number, int reg) const {
  const Source& s = sources_.of(reg);
  const TensorGeometry& seen = sources_.geometry(reg);
  if (sources_.uniform(reg) || seen.numel == 1) return true;
  const int maker = made_in_[s.reg];
  if (maker == static_cast<int>(number)) return s.same;
  if (is_alike(seen.shape, g.shape)) {
    if (maker >= 0 && pitch_[maker]) return pitch_[maker] == pitch_[number] && !fixed_[s.reg];
    return pitch_of(seen) == pitch_[number];
  }
  const int last = seen.shape.size() - 1;
  if (seen.shape[last] == 1) return true;  // one element for each row
  return seen.numel == seen.shape[last];   // one row for all
}

// Whether everything that a group reads and writes may lie at its pitch.
bool Pitches::keeps(const Group& g, size_t number, const Question& own,
                    const Question& needed) const {
  for (const Instruction* i : g.members) {
    const int to = i->writes[0];
    if (needed(to) && (!own(to) || fixed_[to] || !sources_.geometry(to).contiguous ||
                       sources_.changed(to) || sources_.of(to).reg != to))
      return false;
    for (const Read& r : i->reads) {
      if (!can_read(g, number, r.reg)) return false;
    }
  }
  return true;
}

// Whether anything is read that has gaps between its rows, or in boxes.
bool Pitches::has_gaps(const std::vector<Group>& groups) const {
  for (const Group& g : groups) {
    if (g.shape.size() < 2) continue;
    const int64_t row = g.shape[g.shape.size() - 1];
    for (const Instruction* i : g.members) {
      for (const Read& r : i->reads) {
        if (boxed_.of(sources_.of(r.reg).reg)) return true;
        if (is_worth_it(row, pitch_of(sources_.geometry(r.reg)))) return true;
      }
    }
  }
  return false;
}

void Pitches::choose(std::vector<Group>& groups, const Question& own, const Question& needed) {
  if (!has_gaps(groups)) return;
  find_readers(groups);
  pitch_.assign(groups.size(), 0);
  bool any = false;
  for (size_t n = 0; n < groups.size(); ++n) any |= (pitch_[n] = wanted_pitch(groups[n])) != 0;
  for (bool dropped = any; dropped;) {
    dropped = false;
    for (size_t n = 0; n < groups.size(); ++n) {
      if (!pitch_[n] || keeps(groups[n], n, own, needed)) continue;
      pitch_[n] = 0;
      dropped = true;
    }
  }
  auto set = [&](int reg, int64_t pitch) {
    forms_.push_back(sources_.geometry(reg));
    forms_.back().strides = pitched_strides(forms_.back().shape, pitch);
    forms_.back().contiguous = forms_.back().dense = false;
    p_.registers[reg].form = &forms_.back();
  };
  for (int view : views_) {
    const int maker = made_in_[sources_.of(view).reg];
    if (maker >= 0 && pitch_[maker]) set(view, pitch_[maker]);
  }
  for (size_t n = 0; n < groups.size(); ++n) {
    groups[n].pitch = pitch_[n];
    for (size_t k = 0; pitch_[n] && k < groups[n].members.size(); ++k)
      set(groups[n].members[k]->writes[0], pitch_[n]);
  }
}

}  // namespace adjoint
