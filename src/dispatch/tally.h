// A tally: what calls of each op, and nodes of each kind, took on each line. It is what `ad.profile()` shows.
//
// Note [Samples of a tally]. An op on three numbers takes as long as reading a clock twice. So calls come in
// *streams*: those of one op (or nodes of one op) whose operands are about as large. A stream is cut into strata
// of m calls that follow one another, and of each stratum one call, drawn with equal chances, is looked at and
// stands for all m. So
//   - whatever a line's sum is (calls, bytes, time), its estimate is right in the mean: each call stands for m
//     with the chance 1/m, whatever rhythm the program has, and however long calls take;
//   - the calls of a stream are counted exactly; only how they are shared by its lines is estimated;
//   - the variance of a sum over calls with values v is at most the sum of (m - 1) v^2: calls of one stratum are
//     never looked at together, which lowers it below that of independent draws. Its estimate, the sum of
//     m (m - 1) v^2 over what was looked at, is where the errors in the rows come from.
// m belongs to a stratum before it begins, so that it may follow from all that was seen earlier: it is 1 for the
// first kFirst calls of a stream, then such that looking costs about a hundredth of what the stream takes, but no
// more than kLongest. Long calls are all looked at.
//
// What runs inside a call that is passed over is not looked at. What runs inside one that stands for several is
// looked at, for as many; what runs inside one that stands for itself alone has its own turn in its stream. The
// time of a call's own is what remains of it. What is passed over costs a look at the mode, at the op's streams
// and a count; nothing where no profile runs. The mode is kTallied, which closes no short way.
//
// All of it happens with the GIL held. Read next: tally_stream.h, tally.cpp, profile.h.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dispatch/op.h"
#include "dispatch/tally_stream.h"
#include "python/source_line.h"

namespace adjoint {

enum class Profiled : uint8_t {
  Op,           // a call of an op
  Node,         // the backward of a node
  Engine,       // a node's turn in a pass: its backward, hooks, handing on
  Range,        // what a program named by itself: record_function
  Instruction,  // one of a compiled program
  Function,     // the forward of a custom function
};

// What calls of one op (or nodes of one kind) from one line took, without what ran inside them.
struct Tally {
  uint64_t count = 0, nanoseconds = 0;
  int64_t memory = 0;      // bytes that were allocated and not given back meanwhile
  uint64_t looked_at = 0;  // of `count`
  // Standard errors, at most; 0: everything was looked at.
  double nanoseconds_error = 0, count_error = 0;
};

struct TallyKey {
  const char* name = "";  // of static memory, so that it can be compared by address
  Profiled kind = Profiled::Op;
  bool backward = false;
  SourceLine line;
  bool operator==(const TallyKey&) const = default;
};

struct TallySlot;

// For tests: what estimates are compared with, and a clock that depends on nothing but the program.
struct TallyOptions {
  bool exact = false;  // look at everything
  uint64_t allocation_ns =
      0;  // the time is that of the allocations made, so long each; 0: the real one
  uint64_t seed = 0;
};

void start_tally(const TallyOptions& options);
std::vector<std::pair<TallyKey, Tally>> stop_tally();
// The number of the tally that is under way, 0: none is; and of the last one that was begun in this thread.
extern __attribute__((visibility("hidden"))) uint32_t g_tally;
extern __attribute__((visibility("hidden"))) constinit thread_local uint32_t t_tally;
inline bool tally_under_way() { return g_tally != 0; }
// The one that looks at this thread; 0: none.
inline uint32_t tally_of_thread() { return t_tally == g_tally ? g_tally : 0; }
// For a thread that goes on with what another one began while this tally was under way.
inline void join_tally(uint32_t tally) {
  if (tally == g_tally) t_tally = tally;
}
// How long the call took that made a node, of the newest tally that is over or under way: what was measured,
// or (`is_mean`) the mean of its line (or of its op), where that call was one of those passed over. None of
// nodes from before it.
struct ForwardTime {
  double seconds;
  bool is_mean;
};
std::optional<ForwardTime> forward_time(const Node* node);

// An event of the tally that is under way, from `open` to the end of the scope.
class TallyScope {
 public:
  TallyScope() = default;
  TallyScope(const TallyScope&) = delete;
  ~TallyScope() {
    if (slot_) close();
  }
  // False where no tally of this thread is under way. Without a line, that of the event around it counts, or the
  // caller's. Without a stream it stands for itself (or for as many as the event around it).
  bool open(Profiled kind, const char* name, const SourceLine* line, TallyStream* stream);
  // The same for a name that is not of static memory.
  bool open(Profiled kind, const std::string& name, const SourceLine* line,
            TallyStream* stream = nullptr);
  // The call recorded a node.
  void made(const Node* node) { sequence_ = node->sequence; }

 private:
  void close();
  void count(uint64_t took, int64_t grown);
  void note_made(uint64_t took);

  TallySlot* slot_ = nullptr;  // null: not open
  TallyScope* outer_ = nullptr;
  TallyStream* stream_ = nullptr;
  const TallyStream* like_ = nullptr;  // that of the call that it is, or belongs to
  uint64_t opened_ = 0, start_ = 0, sequence_ = 0;
  // Of what ran inside: what it took, for all that it stands for, and what looking at it took.
  int64_t inner_ticks_ = 0, inner_memory_ = 0;
  double inner_square_ = 0;  // the variance of inner_ticks_
  uint64_t looking_ = 0;
  int64_t live_ = 0;
  uint32_t weight_ = 1;  // how many events it stands for
  uint32_t inner_events_ = 0;
  bool whole_before_ = false;
};

// Nothing is looked at until the end of the scope: it belongs to an event that is passed over.
class TallyOff {
 public:
  TallyOff() : was_on_(mode_on(kTallied)) { set_mode(kTallied, false); }
  ~TallyOff() {
    if (was_on_ && tally_of_thread()) set_mode(kTallied, true);
  }
  TallyOff(const TallyOff&) = delete;

 private:
  bool was_on_;
};

// The other way round, in a pass, which goes from node to node with the mode off.
class TallyOn {
 public:
  TallyOn() { set_mode(kTallied, tally_of_thread() != 0); }
  ~TallyOn() { set_mode(kTallied, false); }
  TallyOn(const TallyOn&) = delete;
};

// The elements of operands, as far as it takes to tell a stream.
inline int64_t tally_elements(const Op& op, const Value* args) {
  int64_t elements = 0;
  for (int i = 0; i < std::min(op.argument_count, 3); ++i) {
    if (args[i].is_tensor()) {
      elements += args[i].object()->numel;
    } else if (args[i].is_tensors()) {
      for (const Tensor& t : args[i].tensors()) elements += t ? t.numel() : 0;
    }
  }
  return elements;
}

}  // namespace adjoint
