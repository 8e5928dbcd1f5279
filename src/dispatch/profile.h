// The profiler: which ops, nodes and named ranges ran, when, from which line, and what each took.
//
// There are two kinds, of which one can be under way. A *profile* keeps every event. A *tally* (tally.h) keeps
// sums by op and line, from samples, which costs a few parts in a hundred.
//
// Nothing here runs unless the thread's kProfiled or kTallied mode is on. kProfiled is one of the slow modes, so
// that the short ways step aside and every op comes through apply.cpp; where that asks for modes anyway it asks
// for these too. Events of one profile stand in one list, in the order in which they began; each knows the one
// that it began inside. Everything here happens with the GIL held.
// Read next: profile.cpp, bindings/profile.cpp, then python/adjoint/profiler.
#pragma once
#include <string>
#include <vector>

#include "dispatch/op.h"
#include "dispatch/tally.h"
#include "python/stack.h"

namespace adjoint {

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

// Throws if one is under way. The mode is this thread's, and that of passes which it starts.
void start_profile(bool shapes, bool stacks);
// What was seen since; empty if none is under way.
Profile stop_profile();
bool profile_under_way();
// For what does not end with a C++ scope; -1 if nothing is profiled.
int begin_profiled(Profiled kind, std::string name);
void end_profiled(int event);

// Throws if a profile or a tally is under way.
void refuse_second_profile();

// One event, from here to the end of the scope.
class ProfiledScope {
 public:
  ProfiledScope(const Op& op, const Value* args, bool inplace);
  ProfiledScope(Profiled kind, Node* node, TallyStream* stream = nullptr);
  ProfiledScope(Profiled kind, const std::string& name, TallyStream* stream = nullptr);
  ProfiledScope(Profiled kind, std::string name, const SourceLine& line);
  ~ProfiledScope();
  ProfiledScope(const ProfiledScope&) = delete;
  // The result of a call: the node that it recorded, if it did.
  void made(const Value& out);

 private:
  int event_ = -1;
  TallyScope tally_;
};

}  // namespace adjoint
