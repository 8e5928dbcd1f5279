// Read periods.h first.
#include "program/passes/periods.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace adjoint {
namespace {

size_t bits(const void* p) { return reinterpret_cast<uintptr_t>(p) >> 4; }

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.contiguous() && b.contiguous() &&
         std::memcmp(a->data, b->data, static_cast<size_t>(a.numel()) * a.itemsize()) == 0;
}

}  // namespace

Periods::Periods(const std::vector<Instruction>& code, const Program& p,
                 std::function<bool(int)> stackable, bool loose)
    : code_(code),
      p_(p),
      stackable_(std::move(stackable)),
      loose_(loose),
      maker_(p.registers.size(), -1),
      slot_(p.registers.size()) {
  tokens_.reserve(code.size());
  for (size_t k = 0; k < code.size(); ++k) {
    const Instruction& i = code[k];
    for (size_t n = 0; n < i.writes.size(); ++n) {
      if (i.writes[n] < 0) continue;
      maker_[i.writes[n]] = static_cast<int>(k);
      slot_[i.writes[n]] = static_cast<int>(n);
    }
    tokens_.push_back(may_repeat(i) ? token(i) : 0);
  }
}

// Whatever runs Python, or changes memory otherwise than in place, is left as it stands.
bool Periods::may_repeat(const Instruction& i) const {
  if (i.changes || i.has_table()) return false;
  if (i.kind == Kind::Alias || i.kind == Kind::Constant || i.kind == Kind::Change) return true;
  if (i.kind != Kind::Apply) return false;
  for (int w : i.writes) {
    for (const Read& r : i.reads) {  // results have memory of their own
      if (w >= 0 && p_.registers[r.reg].root == p_.registers[w].root) return false;
    }
  }
  return true;
}

size_t Periods::token(const Instruction& i) const {
  size_t h = mix(static_cast<size_t>(i.kind) + 1, bits(i.op));
  h = mix(h, i.line.hash());
  h = mix(h, i.reads.size());
  for (int w : i.writes) h = mix(h, w < 0 ? 1 : bits(p_.registers[w].form));
  if (!loose_) h = mix(h, bits(i.args));
  return h | 1;
}

// By instruction: a hash of the `width` that end with it; 0 where one of them repeats nothing.
std::vector<size_t> Periods::windows(size_t width) const {
  constexpr size_t kBase = 0x9e3779b97f4a7c15ull;
  size_t power = 1;
  for (size_t k = 0; k < width; ++k) power *= kBase;
  std::vector<size_t> found(tokens_.size());
  size_t hash = 0, good = 0;
  for (size_t k = 0; k < tokens_.size(); ++k) {
    hash = hash * kBase + tokens_[k] - (k >= width ? tokens_[k - width] * power : 0);
    good = tokens_[k] ? good + 1 : 0;
    if (good >= width) found[k] = hash | 1;
  }
  return found;
}

// Distances between equal stretches of code, those that may explain most of it first. The same ops
// stand in many places of a period, so short stretches do not tell.
std::vector<size_t> Periods::lengths() const {
  std::vector<size_t> found;
  for (size_t width : {1, 8, 64}) {
    if (width > tokens_.size()) break;
    std::unordered_map<size_t, size_t> before, counts;
    std::vector<size_t> hashes = windows(width);
    before.reserve(1024);
    for (size_t k = 0; k < hashes.size(); ++k) {
      if (!hashes[k]) continue;
      auto [at, added] = before.try_emplace(hashes[k], k);
      if (!added) ++counts[k - std::exchange(at->second, k)];
    }
    std::vector<std::pair<size_t, size_t>> ranked;  // what is explained, length
    for (auto [length, count] : counts)
      ranked.emplace_back(std::min(length * count, tokens_.size()), length);
    std::ranges::sort(ranked, [](auto a, auto b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    constexpr size_t kTried = 4;
    for (size_t k = 0; k < std::min(kTried, ranked.size()); ++k) {
      if (std::ranges::find(found, ranked[k].second) == found.end())
        found.push_back(ranked[k].second);
    }
  }
  return found;
}

Period Periods::longest(size_t least) const {
  Period best;
  auto size = [](const Period& p) { return p.last - p.first; };
  for (size_t length : lengths()) {
    // The longest stretch in which each instruction looks like that one period before.
    for (size_t k = length; k < tokens_.size();) {
      if (!tokens_[k] || tokens_[k] != tokens_[k - length]) {
        ++k;
        continue;
      }
      size_t from = k;
      while (k < tokens_.size() && tokens_[k] && tokens_[k] == tokens_[k - length]) ++k;
      // Operands may take turns: then a period is several of these.
      constexpr size_t kTurns = 4;
      for (size_t turns = 1; turns <= kTurns; ++turns) {
        size_t whole = turns * length, start = from - length + whole;
        if (start >= k || (k - start) / whole + 1 < least || k - from + length <= size(best)) break;
        Period found = verified(start, k, whole);
        bool most = 2 * size(found) > k - from;
        if (found.count() >= least && size(found) > size(best)) best = std::move(found);
        if (most) break;
      }
    }
  }
  return best;
}

bool Periods::same_form(int a, int b) const {
  const Register &r = p_.registers[a], &s = p_.registers[b];
  return r.form == s.form && r.data == s.data;
}

bool Periods::relate(int before, int now, size_t length, Relation& found) const {
  if (before == now) {
    found = {Relation::Fixed, now, 0};
    return true;
  }
  if (!same_form(before, now)) return false;
  int a = maker_[before], b = maker_[now];
  if (a >= 0 && b >= 0) {
    if (b - a == static_cast<int>(length) && slot_[before] == slot_[now]) {
      found = {Relation::Moved, -1, 0};
      return true;
    }
    const Instruction &x = code_[a], &y = code_[b];
    if (x.kind != Kind::Alias || y.kind != Kind::Alias || x.reads[0].reg != y.reads[0].reg)
      return false;
    found = {Relation::Row, x.reads[0].reg, p_.registers[now].offset - p_.registers[before].offset};
    return true;
  }
  if (a >= 0 || b >= 0 || !stackable_(before) || !stackable_(now)) return false;
  found = {Relation::Stacked, -1, now - before};
  return true;
}

bool Periods::varies(size_t k, size_t length) const {
  const Instruction &a = code_[k - length], &b = code_[k];
  if (a.kind != Kind::Constant) return a.args != b.args;
  return !same_bytes(a.more->constant, b.more->constant);
}

// Whether an instruction is that one period before, on operands that follow from that one's.
bool Periods::relate(size_t k, size_t length, std::vector<Relation>& found) const {
  const Instruction &a = code_[k - length], &b = code_[k];
  found.clear();
  if (a.kind != b.kind || a.op != b.op || a.reads.size() != b.reads.size() ||
      a.writes.size() != b.writes.size() || a.may_fail != b.may_fail || a.counted != b.counted)
    return false;
  if (!loose_ && varies(k, length)) return false;
  for (size_t n = 0; n < a.writes.size(); ++n) {
    int v = a.writes[n], w = b.writes[n];
    if ((v < 0) != (w < 0) || (w >= 0 && !same_form(v, w))) return false;
  }
  for (size_t n = 0; n < a.reads.size(); ++n) {
    const Read &r = a.reads[n], &s = b.reads[n];
    if (r.argument != s.argument || r.item != s.item) return false;
    if (!relate(r.reg, s.reg, length, found.emplace_back())) return false;
  }
  if (a.kind != Kind::Alias) return true;
  auto moved = [&](const Instruction& i) {
    return p_.registers[i.writes[0]].offset - p_.registers[i.reads[0].reg].offset;
  };
  int64_t step = moved(b) - moved(a);
  if (step && found[0].kind != Relation::Fixed) return false;
  found.push_back({Relation::Row, -1, step});
  return true;
}

// The longest part of [from, to), with the period before it, in which operands follow from one
// another in the same way.
Period Periods::verified(size_t from, size_t to, size_t length) const {
  std::vector<std::vector<Relation>> ring(length);
  std::vector<Relation> now;
  Period best, open;
  best.length = open.length = length;
  size_t start = from;  // of the part that is looked at
  auto close = [&](size_t end) {
    if (end < start || end - start + length <= best.last - best.first) return;
    best.first = start - length;
    best.last = end;
    best.relations.assign(length, {});
    for (size_t k = end; k-- > start && end - k <= length;)
      best.relations[(k - (end - length)) % length] = ring[k % length];
  };
  for (size_t k = from; k < to; ++k) {
    if (!relate(k, length, now)) {
      close(k);
      start = k + 1;
    } else if (k >= start + length && now != ring[k % length]) {
      close(k);
      start = k - length + 1;
    }
    std::swap(ring[k % length], now);
  }
  close(to);
  if (best.count() < 3) return {};
  return best;
}

}  // namespace adjoint
