// A tally: what calls of each op, and nodes of each kind, took on each line. It is what `ad.profile()` shows.
//
// Note [Samples of a tally]. Every event is counted, and its bytes are exact. Reading a clock twice costs as
// much as a third of the shortest ops, so what lasts less than three microseconds is timed once in about sixteen
// times, at random distances; those that are passed over are taken to last as long as the others of their line
// (or of their op, if none of the line was timed). What runs inside an event is timed if that is: the time of its
// own is what remains. What runs inside a node that is passed over is not looked at: calls inside of nodes are
// counted with those that are timed, each for all that it stands for.
//
// All of it happens with the GIL held. Read next: tally.cpp, profile.h.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dispatch/op.h"
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
  int64_t memory = 0;  // bytes that were allocated and not given back meanwhile
};

struct TallyKey {
  const char* name = "";  // of static memory, so that it can be compared by address
  Profiled kind = Profiled::Op;
  bool backward = false;
  SourceLine line;
  bool operator==(const TallyKey&) const = default;
};

struct OpPace;
struct TallySlot;

void start_tally();
std::vector<std::pair<TallyKey, Tally>> stop_tally();
bool tally_under_way();
// How long the call took that made a node, of the newest tally that is over or under way: what was measured,
// or (`is_mean`) the mean of its line, where that call was one of those passed over. None of nodes from
// before it.
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
    if (slot_)
      close();
    else if (mutes_)
      unmute();
  }
  // False where no tally is under way. Without a line, that of the event around it counts, or the caller's.
  // `is_short`: it may be passed over.
  bool open(Profiled kind, const char* name, const SourceLine* line, bool is_short);
  // The same for a name that is not of static memory.
  bool open(Profiled kind, const std::string& name, const SourceLine* line);
  // A call of the short way, or a short node, that is timed.
  void open_paced(const Op& op);
  void open_paced(const char* name, const SourceLine& line);
  // A short node that is passed over, with all that runs inside.
  void mute();
  // The call recorded a node.
  void made(const Node* node);
  // Whether nothing inside is looked at.
  bool mutes() const { return mutes_; }

 private:
  void close();
  void unmute();

  TallySlot* slot_ = nullptr;  // null: not open
  TallyScope* outer_ = nullptr;
  uint64_t start_ = 0, inner_ticks_ = 0, sequence_ = 0;
  int64_t live_ = 0, inner_memory_ = 0;
  uint32_t weight_ = 0;  // how many events it stands for; 0: it is passed over
  bool mutes_ = false;
  OpPace* pace_ = nullptr;
};

// --- The short way (direct.cpp) -------------------------------------------------------------------
// Its calls are passed over by op, so that a line is looked for once: a recorded node has it. Calls that record
// nothing are counted with the next one that is timed.

struct OpPace {
  const void* key = nullptr;  // the op, or the name of nodes
  uint32_t left = 0;          // how many more calls are passed over
  uint32_t stands_for = 1;    // the next one that is timed: for itself, and for those
  uint32_t timed = 0;
  uint32_t unplaced = 0;  // calls that recorded nothing: their line would have to be looked for
  TallySlot* slot =
      nullptr;  // of the last call that was passed over, or of the last node that was timed
};
inline constexpr size_t kPaces = 1024;
extern __attribute__((visibility("hidden"))) OpPace op_paces[kPaces];
extern __attribute__((visibility("hidden"))) constinit thread_local TallyScope* t_innermost_tally;

// Whether what runs now is inside a node that is passed over.
inline bool tally_muted() { return t_innermost_tally && t_innermost_tally->mutes(); }

inline OpPace& pace_of(const void* key) {
  return op_paces[(reinterpret_cast<uintptr_t>(key) >> 4) * 0x9E3779B97F4A7C15u >> 54];
}
// Whether a short call is only counted: then `count_passed_over` is owed, afterwards. Nodes are counted with
// those that are timed.
inline bool passes_over(OpPace& pace, const void* key) {
  if (t_innermost_tally || pace.key != key || pace.left == 0) return false;
  --pace.left;
  return true;
}
inline void TallyScope::mute() {
  outer_ = t_innermost_tally;
  mutes_ = true;
  t_innermost_tally = this;
}
inline void TallyScope::unmute() { t_innermost_tally = outer_; }
void count_passed_over(OpPace& pace, const Op& op, const Node* made, int64_t bytes);

// Elements of operands up to which a call may be a short one.
inline constexpr int64_t kShortNumel = 4096;

}  // namespace adjoint
