// Which memory that was there before is changed in a stretch of eager execution: for
// `ad.compile(f, verify=True)`, which has to see what a program does not write and the function
// does. Read bindings/program/verify.cpp.
#pragma once
#include "tensor/tensor.h"

namespace adjoint {

struct ChangeLog {
  uint16_t mark;  // of memory that was made in this stretch (tensor/storage.h)
  Tensors changed;
  bool draws;  // random numbers were drawn
};
extern constinit thread_local ChangeLog* t_change_log;

inline void log_change(TensorObject* t) {
  if (!t_change_log) [[likely]]
    return;
  if (t->storage->born >> 8 != t_change_log->mark)
    t_change_log->changed.push_back(Tensor::borrow(t));
}

}  // namespace adjoint
