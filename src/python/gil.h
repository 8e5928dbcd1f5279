// Letting other Python threads run while a long kernel does: nothing that counts references may
// happen while one of these is alive.
#pragma once
#include <Python.h>

#include <utility>

namespace adjoint {

// Below this many elements a loop is over before another thread could make use of the GIL.
inline constexpr int64_t kReleaseGil = 32768;

class WithoutGil {
 public:
  explicit WithoutGil(bool wanted = true) : state_(wanted ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() { end(); }

  // Takes it back before the block ends: whatever makes, copies or drops a tensor needs it.
  void end() {
    if (PyThreadState* state = std::exchange(state_, nullptr)) PyEval_RestoreThread(state);
  }
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace adjoint
