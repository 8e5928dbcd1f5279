// Read transcript.h first.
#include "program/capture/transcript.h"

#include <algorithm>

namespace adjoint {

size_t follow_from = 10000;

namespace {

// Periods that are seen before they are followed, those that a stretch has at least, and how many
// candidates for its length are tried.
constexpr size_t kShown = 8, kLeastPeriods = 25, kTried = 16;

size_t bits(const void* p) { return reinterpret_cast<uintptr_t>(p) >> 4; }

size_t token(const std::vector<Register>& registers, const Instruction& i) {
  size_t h = mix(static_cast<size_t>(i.kind) + 1, bits(i.op));
  h = mix(h, i.line.hash());
  h = mix(h, i.reads.size());
  for (int w : i.writes) h = mix(h, w < 0 ? 1 : bits(registers[w].form));
  return h;
}

// Whether an operand is made before, by the same part, and is another one in each period: a view of
// something that moves along it.
bool is_row(const Stretch& s, size_t n, size_t read, int part) {
  int step = s.moves[n].reads[read];
  return step && step != s.step && s.period[n].reads[read].reg >= part;
}

}  // namespace

void Transcript::push(const std::vector<Register>& registers, Instruction i) {
  if (following_.length) {
    Stretch& s = following_;
    size_t n = s.count % s.length;
    auto run = static_cast<int>(s.count / s.length);
    // What it was in the first period, and how far it has moved since.
    bool same = follows(registers, s.period[n], i, part_, now_);
    const Moves& by = s.moves[n];
    for (size_t k = 0; same && k < now_.reads.size(); ++k) {
      same = now_.reads[k] == run * by.reads[k] && now_.places[k] == run * by.places[k];
      if (same && is_row(s, n, k, part_))
        same = registers[i.reads[k].reg].root == registers[s.period[n].reads[k].reg].root;
    }
    for (size_t k = 0; same && k < now_.writes.size(); ++k)
      same = now_.writes[k] == run * by.writes[k] && now_.roots[k] == run * by.roots[k] &&
             now_.offsets[k] == run * by.offsets[k];
    if (same && by.table.empty()) same = i.args == s.period[n].args;
    if (same) {
      if (!by.table.empty()) s.moves[n].table.push_back(i.args);
      ++s.count;
      return;
    }
    close();
  }
  open_.push_back(std::move(i));
  if (open_.size() - floor_ >= std::max(next_look_, follow_from)) look_for_period(registers);
}

// Distances to earlier places where the last instructions stand, too.
void Transcript::look_for_period(const std::vector<Register>& registers) {
  size_t size = open_.size() - floor_;
  next_look_ = size + size / 2;
  std::vector<size_t> tokens;
  tokens.reserve(size);
  for (size_t k = floor_; k < open_.size(); ++k) tokens.push_back(token(registers, open_[k]));
  size_t width = std::min<size_t>(64, size / 16), tried = 0;
  for (size_t d = 1; d <= size / kShown && tried < kTried; ++d) {
    size_t k = 0;
    while (k < width && tokens[size - 1 - k] == tokens[size - 1 - k - d]) ++k;
    if (k < width) continue;
    ++tried;
    repeats_ = true;
    if (follow(registers, d)) return;
  }
}

// Whether at least half of what was looked at are periods of this length; if so they are followed.
bool Transcript::follow(const std::vector<Register>& registers, size_t length) {
  size_t end = open_.size(), k = end;
  std::vector<Moves> moves(length);
  std::vector<bool> known(length), varies(length);
  int step = 0;
  // From the end on: each is what is one period before it.
  while (k - floor_ > length) {
    size_t at = k - 1, n = at % length;
    const Instruction &a = open_[at - length], &b = open_[at];
    if (!follows(registers, a, b, part_, now_)) break;
    if (known[n] && !(moves[n] == now_)) break;
    bool fits = true;
    for (size_t w = 0; w < b.writes.size(); ++w) {
      if (b.writes[w] < 0) continue;
      fits = fits && (!step || now_.writes[w] == step) && now_.writes[w] > 0;
      step = now_.writes[w];
    }
    if (!fits) break;
    known[n] = true;
    varies[n] = varies[n] || a.args != b.args;
    moves[n] = now_;
    --k;
  }
  size_t first = k - length;  // the first one of a period
  if (k == end || 2 * (end - first) < end - floor_ || end - first < kShown * length || !step)
    return false;
  for (size_t n = first; n < end; ++n) {
    const Moves& by = moves[n % length];
    for (size_t r = 0; n >= first + length && r < open_[n].reads.size(); ++r) {
      int reg = open_[n].reads[r].reg;
      bool row = reg >= part_ && by.reads[r] && by.reads[r] != step;
      if (row && registers[reg].root != registers[open_[n - length].reads[r].reg].root)
        return false;
    }
  }
  Stretch s;
  s.length = length;
  s.count = end - first;
  s.step = step;
  s.first = -1;
  for (size_t n = 0; n < length; ++n) {
    size_t at = (first + n) % length;
    for (int w : open_[first + n].writes) {
      if (s.first < 0) s.first = w;
    }
    if (varies[at]) {
      for (size_t m = first + n; m < end; m += length) moves[at].table.push_back(open_[m].args);
    }
    s.moves.push_back(std::move(moves[at]));
    s.period.push_back(std::move(open_[first + n]));
  }
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(first), open_.end());
  open_.shrink_to_fit();
  following_ = std::move(s);
  return true;
}

// Whole periods become a stretch; what is left over stands after it.
void Transcript::close() {
  if (!following_.length) return;
  Stretch s = std::exchange(following_, {});
  size_t whole = s.count / s.length * s.length;
  std::vector<Instruction> rest;
  bool few = whole < std::max(follow_from, kLeastPeriods * s.length);
  for (size_t k = few ? 0 : whole; k < s.count; ++k) rest.push_back(s.at(k));
  if (few) {
    open_.insert(open_.end(), std::make_move_iterator(rest.begin()),
                 std::make_move_iterator(rest.end()));
  } else {
    for (Moves& m : s.moves) {
      if (!m.table.empty()) m.table.resize(whole / s.length);
    }
    s.count = whole;
    closed_ += open_.size() + whole;
    parts_.push_back({std::move(open_), std::move(s)});
    open_ = std::move(rest);
    floor_ = 0;
  }
  next_look_ = open_.size() - floor_ + follow_from;
}

size_t Transcript::followed() const {
  size_t found = following_.count;
  for (const Part& p : parts_) found += p.then.count;
  return found;
}

void Transcript::divide(int part) {
  close();
  floor_ = open_.size();
  next_look_ = 0;
  part_ = part;
}

// The last stretch becomes instructions again.
void Transcript::open_again() {
  Part p = std::move(parts_.back());
  parts_.pop_back();
  closed_ -= p.code.size() + p.then.count;
  std::vector<Instruction> after = std::move(open_);
  open_ = std::move(p.code);
  open_.reserve(open_.size() + p.then.count + after.size());
  for (size_t k = 0; k < p.then.count; ++k) open_.push_back(p.then.at(k));
  floor_ = open_.size();
  open_.insert(open_.end(), std::make_move_iterator(after.begin()),
               std::make_move_iterator(after.end()));
}

void Transcript::cut(size_t size) {
  if (this->size() == size) return;
  size_t before = closed_ + open_.size();
  if (size >= before) {
    following_.count = size - before;
    for (size_t n = 0; n < following_.length; ++n) {
      auto& table = following_.moves[n].table;
      size_t runs = (following_.count + following_.length - 1 - n) / following_.length;
      if (!table.empty()) table.resize(runs);
    }
    if (following_.count >= following_.length) return;
  }
  close();
  while (size < closed_) open_again();
  open_.resize(size - closed_);
  floor_ = std::min(floor_, open_.size());
}

Instruction Transcript::last() const {
  if (following_.count) return following_.at(following_.count - 1);
  if (!open_.empty()) return open_.back();
  return parts_.back().then.at(parts_.back().then.count - 1);
}

std::vector<Instruction>& Transcript::code() {
  close();
  if (parts_.empty()) return open_;
  std::vector<Instruction> all;
  all.reserve(size());
  for (Part& p : parts_) {
    std::move(p.code.begin(), p.code.end(), std::back_inserter(all));
    for (size_t k = 0; k < p.then.count; ++k) all.push_back(p.then.at(k));
  }
  std::move(open_.begin(), open_.end(), std::back_inserter(all));
  parts_.clear();
  closed_ = 0;
  open_ = std::move(all);
  floor_ = open_.size();
  return open_;
}

}  // namespace adjoint
