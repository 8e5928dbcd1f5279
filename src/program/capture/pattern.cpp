// Read pattern.h first.
#include "program/capture/pattern.h"

namespace adjoint {

Pattern::Pattern(const Stretch& s, const std::vector<Register>& registers,
                 const std::vector<Memory>& roots, const std::vector<int>& kept)
    : s_(s),
      registers_(registers),
      roots_(roots),
      once_(static_cast<size_t>(s.step)),
      kept_(static_cast<size_t>(s.step)),
      line_(static_cast<size_t>(s.step), -1),
      write_(static_cast<size_t>(s.step), -1) {
  for (int reg : kept) {  // of a later period: that of the first is made in any case
    if (s.has(reg) && reg >= s.first + s.step) kept_[slot(reg)] = true;
  }
  // What a later period reads is not the same for the first ones, which read what stands before.
  for (size_t n = 0; n < s.length; ++n) {
    const Instruction& i = s.period[n];
    for (size_t r = 0; r < i.reads.size(); ++r) {
      if (s.moves[n].reads[r] == s.step && i.reads[r].reg < s.first)
        kept_[slot(i.reads[r].reg)] = true;
    }
  }
  for (size_t n = 0; n < s.length; ++n) take_apart(s.period[n], s.moves[n]);
}

// One alias for each view.
void Pattern::take_apart(const Instruction& i, const Moves& by) {
  if (!is_view(registers_, i)) {
    Moves moves = by;
    moves.table.clear();
    return add({i, std::move(moves)});
  }
  for (size_t w = 0; w < i.writes.size(); ++w) {
    if (i.writes[w] < 0) continue;
    Line line;
    line.i.kind = Kind::Alias;
    line.i.line = i.line;
    line.i.reads.push_back({i.reads[0].reg});
    line.i.writes.push_back(i.writes[w]);
    line.by.reads.push_back(by.reads[0]);
    line.by.places.push_back(by.places[0]);
    line.by.writes.push_back(by.writes[w]);
    line.by.roots.push_back(by.roots[w]);
    line.by.offsets.push_back(by.offsets[w]);
    add(std::move(line));
  }
}

// An alias of an alias of the same period is one of what stands behind both.
void Pattern::see_through(Line& line) const {
  if (line.i.kind != Kind::Alias || !s_.has(line.i.reads[0].reg)) return;
  size_t at = slot(line.i.reads[0].reg);
  if (line.by.reads[0] != s_.step || line_[at] < 0) return;
  const Line& of = lines_[static_cast<size_t>(line_[at])];
  if (of.i.kind != Kind::Alias || of.i.writes[0] != line.i.reads[0].reg) return;
  line.i.reads[0].reg = of.i.reads[0].reg;
  line.by.reads[0] = of.by.reads[0];
  line.by.places[0] = of.by.places[0];
}

bool Pattern::is_the_same_in_all(const Line& line) const {
  auto changed = [&](int reg) { return roots_[registers_[reg].root].changed; };
  bool any = false;
  for (size_t w = 0; w < line.i.writes.size(); ++w) {
    int reg = line.i.writes[w];
    if (reg < 0) continue;
    any = true;
    if (kept_[slot(reg)] || changed(reg) || line.by.offsets[w]) return false;
  }
  for (size_t r = 0; r < line.i.reads.size(); ++r) {
    int reg = line.i.reads[r].reg;
    if (line.by.reads[r] || changed(reg)) return false;
    // All may read one value that the first period makes: it is not there before.
    if (s_.has(reg) && !once_[slot(reg)]) return false;
  }
  return any && !line.i.draws();
}

void Pattern::add(Line line) {
  for (size_t r = 0; r < line.i.reads.size(); ++r) {
    int reg = line.i.reads[r].reg;
    if (line.by.reads[r] == s_.step && s_.has(reg) && once_[slot(reg)]) line.by.reads[r] = 0;
  }
  see_through(line);
  bool once = is_the_same_in_all(line);
  for (size_t w = 0; w < line.i.writes.size(); ++w) {
    int reg = line.i.writes[w];
    if (reg < 0) continue;
    once_[slot(reg)] = once;
    line_[slot(reg)] = once ? -1 : static_cast<int>(lines_.size());
    write_[slot(reg)] = static_cast<int>(w);
  }
  if (!once) return lines_.push_back(std::move(line));
  if (line.i.more) line.i.more = std::make_shared<Particulars>(*line.i.more);
  before_.push_back(std::move(line.i));
}

Instruction Pattern::at(size_t k) const {
  const Line& line = lines_[k % lines_.size()];
  auto j = static_cast<int>(k / lines_.size());
  Instruction i = line.i;
  for (size_t r = 0; r < i.reads.size(); ++r) i.reads[r].reg += j * line.by.reads[r];
  for (size_t w = 0; w < i.writes.size(); ++w) {
    if (i.writes[w] >= 0) i.writes[w] += j * line.by.writes[w];
  }
  if (i.more) i.more = std::make_shared<Particulars>(*i.more);
  return i;
}

bool Pattern::find(int reg, Place& found) const {
  if (!s_.has(reg) || line_[slot(reg)] < 0) return false;
  auto period = static_cast<size_t>((reg - s_.first) / s_.step);
  found.line = period * lines_.size() + static_cast<size_t>(line_[slot(reg)]);
  const Instruction& i = lines_[static_cast<size_t>(line_[slot(reg)])].i;
  found.write = i.kind == Kind::Alias ? 0 : static_cast<size_t>(write_[slot(reg)]);
  return true;
}

std::optional<Instruction> Pattern::view(int reg) const {
  Place at;
  if (find(reg, at) && lines_[at.line % lines_.size()].i.kind == Kind::Alias)
    return this->at(at.line);
  for (Instruction i : before_) {
    if (i.kind != Kind::Alias || i.writes[0] != equal(reg)) continue;
    i.writes[0] = reg;
    return i;
  }
  return {};
}

int Pattern::equal(int reg) const {
  return is_same_in_all(reg) ? s_.first + static_cast<int>(slot(reg)) : reg;
}

void Pattern::insert(size_t n, Instruction i, Moves by) {
  lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(n), {std::move(i), std::move(by)});
  for (int& line : line_) line += line >= static_cast<int>(n);
}

void Pattern::set_read(size_t n, size_t read, int reg, int step) {
  lines_[n].i.reads[read].reg = reg;
  lines_[n].by.reads[read] = step;
  lines_[n].by.places[read] = 0;
}

}  // namespace adjoint
