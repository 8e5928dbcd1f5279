// Which calls a tally looks at: the part that runs at every call. Read Note [Samples of a tally] in tally.h first.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "tensor/modes.h"

namespace adjoint {

struct TallySlot;

// Calls of one op with operands of about one size, cut into strata of which one call each is looked at.
struct TallyStream {
  uint32_t left = 0;    // how many more are passed over before the next one that is looked at
  uint32_t weight = 1;  // how many calls that one stands for: the length of its stratum
  uint32_t place = 0;   // the calls of the stratum before that one
  uint32_t rest = 0;    // the calls that the last one's stratum still had after it
  uint64_t seen = 0;    // how many were looked at
  double mean_ticks = 0;
  TallySlot* slot = nullptr;  // of the last one
};

// The streams of one op in one direction, by size: each of them has operands within a factor of 16.
inline constexpr int kTallySizes = 5;
struct TallyStreams {
  TallyStream by_size[kTallySizes];
  TallyStream& of(int64_t elements) {
    int log2 = 63 - std::countl_zero(static_cast<uint64_t>(elements) | 1);
    return by_size[std::min(log2 >> 2, kTallySizes - 1)];
  }
};

// The place for streams in what has them: made when something is first looked at, and kept.
struct TallyStreamsRef {
  mutable TallyStreams* at = nullptr;
};
TallyStream& made_tally_stream(const TallyStreamsRef& streams, int64_t elements);

// --- what is looked at (tally.cpp) ---------------------------------------------------------------
struct TallySampling {
  bool exact = false;  // look at everything
  double ns_per_tick = 1;
};
void start_tally_streams(const TallySampling& sampling, uint64_t seed);
// Everything is due: a thread whose mode is still on when a tally is over finds out with its next call.
void reset_tally_streams();
void set_tally_pace(double ns_per_tick);
// Whether another program had the core meanwhile, or the garbage collector: it says nothing about the others.
bool is_interrupted(const TallyStream& stream, uint64_t ticks);
// A call was looked at, with so many events in all: the next stratum begins.
void advance(TallyStream& stream, TallySlot* slot, uint64_t ticks, uint32_t events);
// What is to be added to the calls of the last slot so that those of the stream are counted exactly.
int64_t calls_of_tail(const TallyStream& stream);
void each_tally_stream(void (*f)(const TallyStream&));

// --- at every call -------------------------------------------------------------------------------
// Whether this call is none of those that are looked at; then nothing is owed for it. Asked once per call, where
// kTallied is on.
inline bool tally_passes_over(const TallyStreamsRef& streams, int64_t elements) {
  if (!streams.at || mode_on(kTalliedWhole)) return false;
  TallyStream& stream = streams.at->of(elements);
  if (stream.left == 0) return false;
  --stream.left;
  return true;
}

}  // namespace adjoint
