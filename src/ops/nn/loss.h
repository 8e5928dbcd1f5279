// What the losses share: the `reduction` argument and the checks of class targets.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

enum class LossReduction { None, Mean, Sum };
LossReduction reduction_of(const Value& text);
// The loss of each element brought to what `reduction` asks for, with ops.
Tensor reduce_loss(const Tensor& each, LossReduction how);

// Input [N, C, K] with one class out of C per (n, k): what [C], [N, C] and [N, C, d1, ...] mean.
struct ClassShape {
  int64_t n = 1, classes = 0, k = 1;
  int64_t count() const { return n * k; }
};
// The classes of a loss, checked: every target is below `classes` or is `ignored`.
struct Classes {
  ClassShape shape;
  Tensor target;  // contiguous int64
  Tensor weight;  // contiguous, of the compute dtype; undefined where there is none
  int64_t ignored;

  const int64_t* at() const { return target.data<int64_t>(); }
};
Classes check_classes(const char* name, Span input, DType dtype, const Tensor& target,
                      const Value& weight, int64_t ignored);

}  // namespace adjoint
