// Ctrl-C in loops that run long: Python looks for signals between its own instructions only.
#pragma once
#include <Python.h>

#include "python/error.h"

namespace adjoint {

// Runs the handlers of signals that have arrived (in the main thread; elsewhere nothing happens).
// Throws what they raise, KeyboardInterrupt as a rule. Needs the GIL.
inline void check_signals() {
  if (PyErr_CheckSignals() < 0) throw PythonError{};
}

// For loops that hold the GIL: looks once in a million instructions or so.
class NowAndThen {
 public:
  // `work` counts elements; something as long as making a tensor is kTensor of them.
  static constexpr int64_t kTensor = 256;
  void check(int64_t work) {
    done_ += work;
    if (done_ < kOften) [[likely]]
      return;
    done_ = 0;
    check_signals();
  }

 private:
  static constexpr int64_t kOften = 1 << 20;
  int64_t done_ = 0;
};

}  // namespace adjoint
