// The profiler: which ops, nodes and named ranges ran, when, from which line, and what each took.
//
// Nothing here runs unless the thread's kProfiled mode is on. It is one of the slow modes, so that the
// short ways step aside and every op comes through apply.cpp; where that asks for modes anyway it asks for
// this one too. Events of one profile stand in one list, in the order in which they began; each knows the one
// that it began inside. Everything here happens with the GIL held.
//
// There are two kinds. A *profile* keeps every event. A *tally* keeps sums by op and line, which costs a
// tenth: an event is a clock read twice and a place in a table. One of the two can be under way.
// Read next: profile.cpp, bindings/profile.cpp, then python/adjoint/profiler.
#pragma once
#include <string>
#include <vector>

#include "dispatch/op.h"
#include "python/stack.h"

namespace adjoint {

enum class Profiled : uint8_t {
  Op,           // a call of an op
  Node,         // the backward of a node
  Engine,       // a node's turn in a pass: its backward, hooks, handing on
  Range,        // what a program named by itself: record_function
  Instruction,  // one of a compiled program
  Function,     // the forward of a custom function
};

struct ProfiledEvent {
  std::string name;
  Profiled kind;
  uint64_t start = 0, end = 0;  // nanoseconds of the steady clock; an end of 0: still under way
  uint64_t thread = 0;
  int parent = -1;
  uint64_t sequence = 0;         // of the node that a call recorded, or that runs; 0: none
  int64_t memory = 0;            // bytes that were allocated and not given back meanwhile
  int64_t live = 0;              // bytes in use when it began
  SourceLine line;               // of nodes and instructions: the line of the forward call
  std::vector<CodePlace> stack;  // of the others: where they began, the innermost first
  Value shapes;                  // of the arguments: a list of lists of ints, if asked for
};

struct Profile {
  bool shapes = false, stacks = false;
  std::vector<ProfiledEvent> events;
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

// Throws if one is under way. The mode is this thread's, and that of passes which it starts.
void start_profile(bool shapes, bool stacks);
// What was seen since; empty if none is under way.
Profile stop_profile();
bool profile_under_way();
// For what does not end with a C++ scope; -1 if nothing is profiled.
int begin_profiled(Profiled kind, std::string name);
void end_profiled(int event);

void start_tally();
std::vector<std::pair<TallyKey, Tally>> stop_tally();

// One event, from here to the end of the scope.
class ProfiledScope {
 public:
  ProfiledScope(const Op& op, const Value* args, bool inplace);
  ProfiledScope(Profiled kind, Node* node);
  ProfiledScope(Profiled kind, const std::string& name);
  ProfiledScope(Profiled kind, std::string name, const SourceLine& line);
  ~ProfiledScope();
  ProfiledScope(const ProfiledScope&) = delete;
  // The result of a call: the node that it recorded, if it did.
  void made(const Value& out);

 private:
  // A tally's event under way; inner ones add to what is not its own.
  struct Open {
    TallyKey key;
    uint64_t start = 0, inner_time = 0;
    int64_t live = 0, inner_memory = 0;
    Open* outer = nullptr;
  };
  friend struct TallyThread;
  // False where no tally is under way. Without a line, that of the event around it counts, or the caller's.
  bool open(Profiled kind, const char* name, const SourceLine* line);
  void close();

  int event_ = -1;
  bool is_tallied_ = false;
  Open open_;
};

}  // namespace adjoint
