// Read tally.h first.
#include "dispatch/tally.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "dispatch/profile.h"
#include "tensor/allocator.h"

namespace adjoint {

struct TallySlot {
  TallyKey key;
  uint64_t looked_at = 0;
  int64_t count = 0, weights = 0;  // what those stand for: with and without the ends of streams
  int64_t memory = 0;              // of as many as `weights`
  int64_t ticks = 0, weighed = 0;  // of as many as `weighed`
  double square_weights = 0, square_ticks = 0;  // Note [Samples of a tally]: the variances
};

namespace {

constexpr size_t kNewest = size_t{1} << 16;  // nodes whose calls are remembered: a megabyte
constexpr size_t kCache = 1024;
constexpr uint64_t kPaceEvery = 64;  // calls, between two looks at how fast the clock ticks

uint64_t now() {
  using namespace std::chrono;
  return static_cast<uint64_t>(
      duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

uint64_t g_allocation_ns = 0;  // see TallyOptions

// A clock that costs a third of the steady one: its ticks are compared with that one at the end.
uint64_t ticks() {
  if (g_allocation_ns) [[unlikely]]
    return memory::detail::state.n_alloc * g_allocation_ns;
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return now();
#endif
}

// What it takes to read the clock twice.
uint64_t reading() {
  uint64_t least = ~uint64_t{0};
  for (int i = 0; i < 32; ++i) {
    uint64_t start = ticks();
    least = std::min(least, ticks() - start);
  }
  return least;
}

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
  uint64_t reading = adjoint::reading(), looked_at = 0;
  double nanoseconds_per_tick = 0;  // 0: still under way
  std::deque<TallySlot> slots;
  std::unordered_map<TallyKey, TallySlot*, KeyHash> by_key;
  TallySlot* recent[kCache] = {};
  std::unordered_set<std::string> names;  // those that are put together while it runs
  std::vector<MadeNode> made;             // a ring, once it is full
  size_t next_made = 0;
  bool is_sorted = false;

  double per_tick() const {
    if (nanoseconds_per_tick > 0) return nanoseconds_per_tick;
    if (g_allocation_ns) return 1;
    return static_cast<double>(now() - start) / static_cast<double>((ticks() - first_tick) | 1);
  }
};

Tallies* g_tallies =
    nullptr;  // under way, or the last one; never destroyed at exit, for it holds objects
uint32_t g_tallies_begun = 0;  // what began in one that is over ends nothing in the next
constinit thread_local TallyScope* t_innermost_tally = nullptr;

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

// Of one event, without what ran inside: what is estimated may come out below zero.
double mean_ticks(const TallySlot& slot) {
  double sum = std::max(static_cast<double>(slot.ticks), 0.0);
  return sum / static_cast<double>(std::max<int64_t>(slot.weighed, 1));
}

double own_nanoseconds(const TallySlot& s, double per_tick) {
  return mean_ticks(s) * static_cast<double>(s.count) * per_tick;
}

Tally row_of(const TallySlot& s, double per_tick, double scale) {
  Tally row;
  row.count = static_cast<uint64_t>(s.count);
  row.nanoseconds = static_cast<uint64_t>(own_nanoseconds(s, per_tick) * scale);
  row.memory = s.memory;
  if (s.weights != s.count)
    row.memory = std::llround(static_cast<double>(s.memory) / static_cast<double>(s.weights) *
                              static_cast<double>(s.count));
  row.looked_at = s.looked_at;
  row.nanoseconds_error = std::sqrt(s.square_ticks) * per_tick * scale;
  row.count_error = std::sqrt(s.square_weights);
  return row;
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

// What a sample of a stratum of m adds to the variance of a sum of values v.
double square(int64_t m, int64_t v) {
  return static_cast<double>(m) * static_cast<double>(m - 1) * static_cast<double>(v) *
         static_cast<double>(v);
}

// The mode was left on: the tally was ended by another thread, or by a hook of a pass that put its modes back.
[[gnu::cold]] bool not_ours() {
  set_mode(kTallied, false);
  set_mode(kTalliedWhole, false);
  return false;
}

}  // namespace

uint32_t g_tally = 0;
constinit thread_local uint32_t t_tally = 0;

void start_tally(const TallyOptions& options) {
  refuse_second_profile();
  g_allocation_ns = options.allocation_ns;
  delete std::exchange(g_tallies, new Tallies);
  start_tally_streams({options.exact}, options.seed);
  t_tally = g_tally = ++g_tallies_begun;
  t_innermost_tally = nullptr;
  set_mode(kTallied, true);
}

std::vector<std::pair<TallyKey, Tally>> stop_tally() {
  set_mode(kTallied, false);
  if (!g_tally) return {};
  g_tally = 0;
  double per_tick = g_tallies->nanoseconds_per_tick = g_tallies->per_tick();
  double passed = static_cast<double>(ticks() - g_tallies->first_tick) * per_tick, sum = 0;
  each_tally_stream([](const TallyStream& s) { s.slot->count += calls_of_tail(s); });
  reset_tally_streams();
  for (const TallySlot& s : g_tallies->slots) sum += own_nanoseconds(s, per_tick);
  double scale = sum > passed ? passed / sum : 1;  // samples may stand for a little too much
  std::vector<std::pair<TallyKey, Tally>> rows;
  for (const TallySlot& s : g_tallies->slots) {
    if (s.count > 0) rows.push_back({s.key, row_of(s, per_tick, scale)});
  }
  return rows;
}

std::optional<ForwardTime> forward_time(const Node* node) {
  if (!g_tallies || node->sequence <= g_tallies->first_sequence) return std::nullopt;
  double scale = g_tallies->per_tick() * 1e-9;
  if (const MadeNode* m = find_made(node->sequence))
    return ForwardTime{static_cast<double>(m->ticks) * scale, false};
  if (!node->op) return std::nullopt;
  const char* name = node->op->name.c_str();
  auto at = g_tallies->by_key.find({name, Profiled::Op, false, node->line});
  if (at != g_tallies->by_key.end()) return ForwardTime{mean_ticks(*at->second) * scale, true};
  double sum = 0, count = 0;
  for (const TallySlot& s : g_tallies->slots) {
    if (s.key.name != name || s.key.backward) continue;
    sum += own_nanoseconds(s, 1);
    count += static_cast<double>(s.count);
  }
  if (count == 0) return std::nullopt;
  return ForwardTime{sum / count * scale, true};
}

bool TallyScope::open(Profiled kind, const char* name, const SourceLine* line,
                      TallyStream* stream) {
  if (!tally_of_thread()) return not_ours();
  outer_ = t_innermost_tally;
  if (outer_) opened_ = ticks();
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
  whole_before_ = mode_on(kTalliedWhole);
  if (whole_before_)
    weight_ = outer_ ? outer_->weight_ : 1;
  else if ((stream_ = stream))
    weight_ = stream->weight;
  like_ = stream_ || !outer_ ? stream_ : outer_->like_;
  if (weight_ > 1) set_mode(kTalliedWhole, true);
  live_ = allocated();
  start_ = ticks();
  return true;
}

bool TallyScope::open(Profiled kind, const std::string& name, const SourceLine* line,
                      TallyStream* stream) {
  if (!tally_of_thread()) return not_ours();
  return open(kind, g_tallies->names.insert(name).first->c_str(), line, stream);
}

void TallyScope::close() {
  uint64_t end = ticks();
  set_mode(kTalliedWhole, whole_before_);
  if (t_innermost_tally != this) return;  // one began inside of another that is over
  t_innermost_tally = outer_;
  if (!tally_of_thread()) return;
  uint64_t beside = g_tallies->reading + looking_;
  uint64_t took = end - start_ > beside ? end - start_ - beside : 0;
  int64_t grown = allocated() - live_;
  count(took, grown);
  if (stream_) {
    if (++g_tallies->looked_at % kPaceEvery == 0) set_tally_pace(g_tallies->per_tick());
    advance(*stream_, slot_, took, 1 + inner_events_);
  }
  if (sequence_) note_made(took);
  if (!outer_) return;
  outer_->inner_events_ += 1 + inner_events_;
  outer_->looking_ += ticks() - opened_ - took;
}

// Adds it to its line, and to what ran inside the event around it.
void TallyScope::count(uint64_t took, int64_t grown) {
  auto own = static_cast<int64_t>(took) - inner_ticks_;
  // What has nothing to do with the call may have taken this long: then it stands for itself alone.
  bool alone = weight_ > 1 && like_ && is_interrupted(*like_, took);
  int64_t weight = weight_, timed_as = alone ? 1 : weight_;
  TallySlot& s = *slot_;
  ++s.looked_at;
  s.count += weight;
  s.weights += weight;
  s.memory += (grown - inner_memory_) * weight;
  s.ticks += own * timed_as;
  s.weighed += timed_as;
  s.square_ticks += static_cast<double>(weight * weight) * inner_square_;
  if (weight > 1) {
    s.square_ticks += square(timed_as, own);
    s.square_weights += square(weight, 1);
  }
  if (!outer_) return;
  int64_t within = weight_ / outer_->weight_;  // calls of the outer one, of which there are several
  if (alone) within = 1;
  auto whole = static_cast<int64_t>(took);
  outer_->inner_ticks_ += whole * within;
  outer_->inner_memory_ += grown * within;
  outer_->inner_square_ += inner_square_ + square(within, whole);
}

void TallyScope::note_made(uint64_t took) {
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
