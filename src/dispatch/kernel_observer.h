// Seeing which kernel a forward runs on which operands. Forwards of elementwise ops choose kernels
// by their arguments (pow, add, clamp), those of sums plan their axes; a program that is recorded
// watches the choice, and can then run the kernel itself (program/fuse/fuse.h).
#pragma once
#include "dispatch/op.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/reduce.h"

namespace adjoint {

// The kernels that run while this lives, on this thread; the last one in detail.
struct KernelObserver {
  int calls = 0;
  const Kernel* kernel = nullptr;
  DType common = DType::Float32;  // of the operands, after promotion
  int count = 0;
  const TensorObject* tensors[kMaxOperands];  // null: a number
  Value numbers[kMaxOperands];
  const TensorObject* result = nullptr;
  int reductions = 0;
  reduce::Problem problem;  // the last reduction: of `reduced` to linear memory at `reduced_to`
  const TensorObject* reduced = nullptr;
  const char* reduced_to = nullptr;

  KernelObserver();
  ~KernelObserver();
  KernelObserver(const KernelObserver&) = delete;
  void note(const Kernel& k, const Value* v, int n, Promotion p, const Tensor& out);
  void note(const reduce::Problem& p, const Tensor& of);

 private:
  KernelObserver* outer_;
};
extern constinit thread_local KernelObserver* t_kernel_observer;

inline KernelObserver::KernelObserver() : outer_(std::exchange(t_kernel_observer, this)) {}
inline KernelObserver::~KernelObserver() { t_kernel_observer = outer_; }
inline void KernelObserver::note(const reduce::Problem& p, const Tensor& of) {
  ++reductions;
  problem = p;
  reduced = of.get();
  reduced_to = p.out;
}

}  // namespace adjoint
