// Streams of calls. Read Note [Samples of a tally] in tally.h first.
#include "dispatch/tally_stream.h"

#include <deque>

namespace adjoint {
namespace {

constexpr uint64_t kFirst = 256;      // calls of a stream that are all looked at
constexpr uint32_t kLongest = 256;    // calls that one stands for, at most
constexpr double kLookingNs = 200;    // what it takes to look at one, caches and all
constexpr double kShare = 0.01;       // of the time of a stream, for looking
constexpr double kMemory = 64;        // calls after which the mean forgets
constexpr double kInterrupted = 100;  // of the mean
constexpr double kInterruptedNs = 30'000;

std::deque<TallyStreams> g_streams;  // of all that was ever looked at
TallySampling g_sampling;
uint64_t g_random;

// Evenly from 0 to n - 1: xorshift, and the high half of a product.
uint32_t draw(uint32_t n) {
  g_random ^= g_random << 13;
  g_random ^= g_random >> 7;
  g_random ^= g_random << 17;
  return static_cast<uint32_t>(((g_random * 0x2545F4914F6CDD1Du >> 32) * n) >> 32);
}

uint32_t next_weight(const TallyStream& s, uint32_t events) {
  if (g_sampling.exact || s.seen < kFirst) return 1;
  double looking = kLookingNs * events / (g_sampling.ns_per_tick * kShare);
  double most = std::min(2 * s.weight, kLongest);  // in small steps: the first mean may mislead
  return static_cast<uint32_t>(std::clamp(looking / std::max(s.mean_ticks, 1.0), 1.0, most));
}

}  // namespace

TallyStream& made_tally_stream(const TallyStreamsRef& streams, int64_t elements) {
  if (!streams.at) streams.at = &g_streams.emplace_back();
  return streams.at->of(elements);
}

void start_tally_streams(const TallySampling& sampling, uint64_t seed) {
  g_sampling = sampling;
  g_random = 88172645463325252u + seed * 0x9E3779B97F4A7C15u;
  reset_tally_streams();
}

void reset_tally_streams() {
  for (TallyStreams& streams : g_streams) streams = {};
}

void set_tally_pace(double ns_per_tick) { g_sampling.ns_per_tick = ns_per_tick; }

bool is_interrupted(const TallyStream& s, uint64_t ticks) {
  auto t = static_cast<double>(ticks);
  return t > kInterrupted * s.mean_ticks && t * g_sampling.ns_per_tick > kInterruptedNs;
}

void advance(TallyStream& s, TallySlot* slot, uint64_t ticks, uint32_t events) {
  s.slot = slot;
  ++s.seen;
  auto t = static_cast<double>(ticks);
  if (s.weight > 1) t = std::min(t, kInterrupted * s.mean_ticks);
  s.mean_ticks += (t - s.mean_ticks) / std::min(static_cast<double>(s.seen), kMemory);
  s.rest = s.weight - 1 - s.place;
  s.weight = next_weight(s, events);
  s.place = s.weight > 1 ? draw(s.weight) : 0;
  s.left = s.rest + s.place;
}

// The last stratum may not be over: then the call that was looked at stands for fewer. Or it was, and calls of
// the next one were passed over: they count with the last call that was looked at.
int64_t calls_of_tail(const TallyStream& s) { return static_cast<int64_t>(s.place) - s.left; }

void each_tally_stream(void (*f)(const TallyStream&)) {
  for (const TallyStreams& streams : g_streams) {
    for (const TallyStream& s : streams.by_size) {
      if (s.slot) f(s);
    }
  }
}

}  // namespace adjoint
