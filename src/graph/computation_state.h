// Thread-local state that belongs to a computation rather than to a thread. A deeply nested pass
// goes on in a fresh thread (Note [Reentrant passes] in engine/engine.cpp), which must find it
// as its caller had it. `t_modes` is carried by itself; whoever keeps more than that joins the
// list, once, at import.
#pragma once
#include <vector>

namespace adjoint {

struct Carried {
  void* (*capture)();      // in the caller's thread
  void (*adopt)(void*);    // in the fresh thread, before anything else
  void (*leave)();         // in the fresh thread, at its end
  void (*release)(void*);  // in the caller's thread, when the pass is over
};

inline std::vector<Carried>& carried_state() {
  static std::vector<Carried> all;
  return all;
}

}  // namespace adjoint
