// Ctrl-C in kernels that run without the GIL. For loops that hold it: python/interrupt.h.
#pragma once
#include <Python.h>

#include <utility>

#include "parallel/pool.h"
#include "tensor/error.h"
#include "tensor/storage.h"

namespace adjoint {

// For a kernel that may run for minutes on little input, such as a sum over an expanded axis: lets
// other Python threads run, and ends the kernel when a signal handler raises. Handlers are Python
// functions: what the kernel reads and writes has to be held by somebody else than the tensors that
// a handler can get at, hence the storages.
class Interruptible {
 public:
  Interruptible(bool wanted, Storage* a, Storage* b)
      : held_{a, b},
        state_((retain(a), retain(b), wanted) ? PyEval_SaveThread() : nullptr),
        stop_(wanted ? ask : nullptr, this) {}
  ~Interruptible() {
    if (state_) PyEval_RestoreThread(state_);
    for (Storage* s : held_) drop(s);
  }
  Interruptible(const Interruptible&) = delete;
  // After the kernel: throws what a handler raised.
  void finish() {
    if (state_) PyEval_RestoreThread(std::exchange(state_, nullptr));
    if (raised_) throw PythonError{};
  }

 private:
  static bool ask(void* self) {
    auto* s = static_cast<Interruptible*>(self);
    PyEval_RestoreThread(s->state_);
    s->raised_ = PyErr_CheckSignals() < 0;
    s->state_ = PyEval_SaveThread();
    return s->raised_;
  }

  Storage* held_[2];
  PyThreadState* state_;
  bool raised_ = false;
  parallel::Stoppable stop_;
};

}  // namespace adjoint
