// Read tally.h first.
#include "dispatch/tally.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "dispatch/profile.h"
#include "tensor/allocator.h"

namespace adjoint {

struct TallySlot {
  TallyKey key;
  uint64_t count = 0;
  uint64_t ticks = 0, weighed = 0;  // of the events that were timed, and how many they stand for
  int64_t memory = 0;
  uint32_t gap = 1, waited = 0;  // every `gap`th event is timed
};

namespace {

uint64_t now() {
  using namespace std::chrono;
  return static_cast<uint64_t>(
      duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

// A clock that costs a third of the steady one: its ticks are compared with that one at the end.
uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return now();
#endif
}

constexpr uint64_t kShortTicks = 10'000;  // about three microseconds
constexpr uint64_t kLongTicks = 300'000;  // longer than what a sample may stand for
constexpr uint32_t kMeanGap = 16;
constexpr uint32_t kFirst = 16;  // events that are timed in any case: the first ones are slow
constexpr size_t kNewest = size_t{1} << 16;  // nodes whose calls are remembered: a megabyte
constexpr size_t kCache = 1024;

struct KeyHash {
  size_t operator()(const TallyKey& k) const {
    return k.line.hash() * 31 + reinterpret_cast<uintptr_t>(k.name) + 7 * k.backward +
           static_cast<size_t>(k.kind);
  }
};

struct MadeNode {
  uint64_t sequence, ticks;
};

struct Tallies {
  uint64_t start = now(), first_tick = ticks(), first_sequence = last_sequence;
  double nanoseconds_per_tick = 0;  // 0: still under way
  uint64_t random = 88172645463325252u;
  std::deque<TallySlot> slots;
  std::unordered_map<TallyKey, TallySlot*, KeyHash> by_key;
  TallySlot* recent[kCache] = {};
  std::unordered_set<std::string> names;  // those that are put together while it runs
  std::vector<MadeNode> made;             // a ring, once it is full
  size_t next_made = 0;
  bool is_sorted = false;

  double per_tick() const {
    if (nanoseconds_per_tick > 0) return nanoseconds_per_tick;
    return static_cast<double>(now() - start) / static_cast<double>((ticks() - first_tick) | 1);
  }
};

Tallies* g_tallies =
    nullptr;  // under way, or the last one; never destroyed at exit, for it holds objects
bool g_running = false;
int g_generation = 0;  // rises with each: what began in one that is over ends nothing in the next
thread_local int t_generation = 0;  // that of t_innermost_tally

int64_t allocated() { return static_cast<int64_t>(memory::detail::state.allocated); }

[[gnu::noinline]] TallySlot* look_up(const TallyKey& key) {
  auto [at, fresh] = g_tallies->by_key.try_emplace(key, nullptr);
  if (fresh) {
    g_tallies->slots.push_back({key});
    at->second = &g_tallies->slots.back();
  }
  return at->second;
}

// The events of a line follow one another, so that nearly all are found at once.
TallySlot* slot_of(Profiled kind, const char* name, bool backward, const SourceLine& line) {
  size_t mixed = line.hash() * 31 + (reinterpret_cast<uintptr_t>(name) >> 3) + backward;
  TallySlot*& s = g_tallies->recent[(mixed * 0x9E3779B97F4A7C15u) >> 54];
  if (s && s->key.name == name && s->key.backward == backward && s->key.kind == kind &&
      s->key.line == line) [[likely]]
    return s;
  return s = look_up({name, kind, backward, line});
}

// Of one event, without what ran inside. None of the line may have been timed: then that of the op counts.
double mean_ticks(const TallySlot& slot) {
  if (slot.weighed) return static_cast<double>(slot.ticks) / static_cast<double>(slot.weighed);
  uint64_t sum = 0, weighed = 0;
  for (const TallySlot& s : g_tallies->slots) {
    if (s.key.name != slot.key.name || s.key.backward != slot.key.backward) continue;
    sum += s.ticks;
    weighed += s.weighed;
  }
  return static_cast<double>(sum) / static_cast<double>(weighed | 1);
}

double own_nanoseconds(const TallySlot& s, double per_tick) {
  return mean_ticks(s) * static_cast<double>(s.count) * per_tick;
}

const MadeNode* find_made(uint64_t sequence) {
  std::vector<MadeNode>& made = g_tallies->made;
  auto earlier = [](const MadeNode& a, const MadeNode& b) { return a.sequence < b.sequence; };
  if (!g_tallies->is_sorted) {
    std::stable_sort(made.begin(), made.end(), earlier);
    g_tallies->is_sorted = true;
    g_tallies->next_made = 0;
  }
  auto at = std::lower_bound(made.begin(), made.end(), MadeNode{sequence, 0}, earlier);
  return at != made.end() && at->sequence == sequence ? &*at : nullptr;
}

// From 1 to twice the mean: a loop in which calls take turns would be in step with one distance.
uint32_t draw_gap() {
  uint64_t& random = g_tallies->random;
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  return 1 + static_cast<uint32_t>(random % (2 * kMeanGap - 1));
}

// What was passed over, and not counted, since the last one that was timed.
void count_tail(const OpPace& pace) {
  if (!pace.slot) return;
  pace.slot->count += pace.slot->key.backward ? pace.stands_for - 1 - pace.left : pace.unplaced;
}

// The pace of an op, or of nodes of a name; one takes over from another that has the same place.
OpPace& claimed_pace(const void* key) {
  OpPace& pace = pace_of(key);
  if (pace.key == key) return pace;
  if (pace.key) count_tail(pace);
  return pace = {key};
}

void set_pace(OpPace* pace, uint64_t took) {
  pace->left = ++pace->timed > kFirst && took < kShortTicks ? draw_gap() - 1 : 0;
  pace->stands_for = pace->left + 1;
}

}  // namespace

OpPace op_paces[kPaces];
constinit thread_local TallyScope* t_innermost_tally = nullptr;

bool tally_under_way() { return g_running; }

void start_tally() {
  refuse_second_profile();
  delete std::exchange(g_tallies, new Tallies);
  std::fill(std::begin(op_paces), std::end(op_paces), OpPace{});
  g_running = true;
  ++g_generation;
  set_mode(kProfiled, true);
}

std::vector<std::pair<TallyKey, Tally>> stop_tally() {
  set_mode(kProfiled, false);
  if (!g_running) return {};
  g_running = false;
  ++g_generation;
  t_innermost_tally = nullptr;
  double per_tick = g_tallies->nanoseconds_per_tick = g_tallies->per_tick();
  double passed = static_cast<double>(now() - g_tallies->start), sum = 0;
  for (const OpPace& pace : op_paces) count_tail(pace);
  for (TallySlot& s : g_tallies->slots)
    if (s.key.backward) s.count += s.waited;
  for (const TallySlot& s : g_tallies->slots) sum += own_nanoseconds(s, per_tick);
  double scale = sum > passed ? passed / sum : 1;  // samples may stand for a little too much
  std::vector<std::pair<TallyKey, Tally>> rows;
  for (const TallySlot& s : g_tallies->slots) {
    if (s.count == 0) continue;  // begun, and not over
    auto took = static_cast<uint64_t>(own_nanoseconds(s, per_tick) * scale);
    rows.push_back({s.key, {s.count, took, s.memory}});
  }
  return rows;
}

std::optional<ForwardTime> forward_time(const Node* node) {
  if (!g_tallies || node->sequence <= g_tallies->first_sequence) return std::nullopt;
  double scale = g_tallies->per_tick() * 1e-9;
  if (const MadeNode* m = find_made(node->sequence))
    return ForwardTime{static_cast<double>(m->ticks) * scale, false};
  if (!node->op) return std::nullopt;
  auto at = g_tallies->by_key.find({node->op->name.c_str(), Profiled::Op, false, node->line});
  if (at == g_tallies->by_key.end()) return std::nullopt;
  return ForwardTime{mean_ticks(*at->second) * scale, true};
}

bool TallyScope::open(Profiled kind, const char* name, const SourceLine* line, bool is_short) {
  if (!g_running) return false;
  if (t_generation != g_generation) {
    t_innermost_tally = nullptr;
    t_generation = g_generation;
  }
  outer_ = t_innermost_tally;
  if (outer_ && outer_->mutes_) return true;
  bool backward =
      kind == Profiled::Node || kind == Profiled::Engine || (outer_ && outer_->slot_->key.backward);
  if (line) {
    slot_ = slot_of(kind, name, backward, *line);
  } else if (outer_) {
    slot_ = slot_of(kind, name, backward, outer_->slot_->key.line);
  } else {
    SourceLine callers;
    SourceLine::capture(&callers);
    slot_ = slot_of(kind, name, backward, callers);
  }
  t_innermost_tally = this;
  if (outer_) {
    weight_ = outer_->weight_;
  } else if (!is_short) {
    weight_ = 1;
  } else if (++slot_->waited >= slot_->gap) {
    weight_ = std::exchange(slot_->waited, 0);
  }
  mutes_ = backward && !weight_;
  live_ = allocated();
  if (weight_) start_ = ticks();
  return true;
}

bool TallyScope::open(Profiled kind, const std::string& name, const SourceLine* line) {
  return g_running && open(kind, g_tallies->names.insert(name).first->c_str(), line, false);
}

void TallyScope::open_paced(const Op& op) {
  if (!open(Profiled::Op, op.name.c_str(), nullptr, false) || outer_) return;
  OpPace& pace = claimed_pace(&op);
  pace_ = &pace;
  weight_ = pace.stands_for;
  pace.slot = slot_;
}

void TallyScope::open_paced(const char* name, const SourceLine& line) {
  if (!open(Profiled::Node, name, &line, false) || outer_) return;
  OpPace& pace = claimed_pace(name);
  pace_ = &pace;
  weight_ = pace.stands_for;
  pace.slot = slot_;
}

void count_passed_over(OpPace& pace, const Op& op, const Node* made, int64_t bytes) {
  if (!g_running) return;
  if (!made) {
    ++pace.unplaced;
    return;
  }
  if (!pace.slot || pace.slot->key.line != made->line)
    pace.slot = slot_of(Profiled::Op, op.name.c_str(), false, made->line);
  pace.slot->count += 1;
  pace.slot->memory += bytes;
}

void TallyScope::made(const Node* node) { sequence_ = node->sequence; }

void TallyScope::close() {
  uint64_t took = weight_ ? ticks() - start_ : 0;
  if (!g_running || t_generation != g_generation || t_innermost_tally != this) return;
  t_innermost_tally = outer_;
  TallySlot& s = *slot_;
  int64_t grown = allocated() - live_;
  int64_t own = grown - inner_memory_;
  s.count += s.key.backward ? weight_ : 1;
  s.memory += own;
  if (pace_ && pace_->unplaced) {
    s.count += pace_->unplaced;
    s.memory += own * std::exchange(pace_->unplaced, 0);
  }
  if (outer_) outer_->inner_memory_ += grown;
  if (!weight_) return;
  if (outer_)
    outer_->inner_ticks_ += took;
  else if (pace_)
    set_pace(pace_, took);
  else
    s.gap = took < kShortTicks && s.weighed >= kFirst ? draw_gap() : 1;
  if (took > kLongTicks && inner_ticks_ == 0)
    weight_ = 1;  // another program had the core meanwhile
  s.ticks += (took - std::min(inner_ticks_, took)) * weight_;
  s.weighed += weight_;
  if (!sequence_) return;
  std::vector<MadeNode>& made = g_tallies->made;
  g_tallies->is_sorted = false;
  if (made.size() < kNewest) {
    made.push_back({sequence_, took});
  } else {
    made[g_tallies->next_made] = {sequence_, took};
    g_tallies->next_made = (g_tallies->next_made + 1) % kNewest;
  }
}

}  // namespace adjoint
