// Who takes down what ops do, while a program is recorded (program/capture/capture.h). The short ways
// step aside then (kCaptured is one of the slow modes), so that every op comes through apply.cpp.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

class Recorder {
 public:
  bool values_checked = false;  // by the op that runs: see note_check_of_values

  virtual ~Recorder() = default;
  // Runs c.op.forward, and takes it down.
  virtual Value forward(Call& c) = 0;
  // The same into `self`, its new version included.
  virtual void change(Call& c, const Tensor& self) = 0;
  // A tensor made from numbers of the function's own.
  virtual void constant(TensorObject* t) = 0;
  // `made` is a second header on the memory of `from`.
  virtual void alias(TensorObject* from, TensorObject* made) = 0;
  // A backward pass comes to a node, whose backward runs if `executed`. False: it goes no further.
  virtual bool pass(Node* node, bool executed) = 0;
  // A fact about `t` is read (its shape, whether it requires grad): it must be so in each run.
  virtual void look_at(TensorObject* t) = 0;
  // A fact about `t` is read or changed (`what`) that no program could see or repeat: refused if
  // the tensor exists outside the function.
  virtual void refuse_outside(TensorObject* t, const char* what) = 0;
  // Adds to the gradient of a leaf that exists outside the program; false if the leaf belongs to
  // the program, whose ops say it all.
  virtual bool accumulate(TensorObject* leaf, const Tensor& grad) = 0;
  // `t.grad` is read, or (afterwards) was set.
  virtual void read_grad(TensorObject* t) = 0;
  virtual void set_grad(TensorObject* t) = 0;
  // Calls of Python that a program repeats: `run` computes the results from the tensors. Where
  // `like` is given nothing runs: zeros like those tensors stand for the results.
  virtual Tensors host(PyObject* run, const Tensors& operands, const Tensors* like) = 0;
  // The same for what changes its operands and has no results.
  virtual void host_change(PyObject* run, const Tensors& operands) = 0;
  // The memory of `t` is changed while nothing is taken down.
  virtual void changed_aside(const Tensor& t) = 0;
  // Something happens that a program could not repeat: the recording ends, the run goes on.
  virtual void refuse(std::string reason) = 0;
};
extern constinit thread_local Recorder* t_recorder;

inline bool captured() { return mode_on(kCaptured) && t_recorder; }
// An op looks at the values of its operands, and raises an error for some: it has to run even where
// nobody wants its result.
inline void note_check_of_values() {
  if (t_recorder) [[unlikely]]
    t_recorder->values_checked = true;
}
// For all that looks at values or memory without an op: a program would not see it.
template <class... A>
inline void refuse_recording(const A&... what) {
  if (captured()) [[unlikely]]
    t_recorder->refuse(text(what...));
}

// Zeros that rules, and what is around them, make by themselves: an op where ops are taken down.
inline Tensor fresh_zeros(Span shape, DType dtype) {
  return mode_on(kCaptured) ? op<"zeros">(shape, dtype).tensor() : zeros(shape, dtype);
}

inline void look_at(TensorObject* t) {
  if (captured()) [[unlikely]]
    t_recorder->look_at(t);
}
inline void refuse_outside(TensorObject* t, const char* what) {
  if (captured()) [[unlikely]]
    t_recorder->refuse_outside(t, what);
}

// Nothing is taken down while this lives.
struct Uncaptured : ModeGuard {
  Uncaptured() : ModeGuard(kCaptured, false) {}
};

}  // namespace adjoint
