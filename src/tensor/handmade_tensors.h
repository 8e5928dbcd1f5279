// Tensors that are made by hand, not by an op, while a program is recorded (program/capture/capture.h):
// zeros() and alias() tell of them, so that derivative rules may use either without a thought.
#pragma once
#include "tensor/tensor.h"

namespace adjoint {

struct HandmadeObserver {
  // Zeros made by an op instead; undefined where nobody records.
  Tensor (*zeros)(Span shape, DType dtype) = nullptr;
  // `made` is a second header on the memory of `from`.
  void (*aliased)(const Tensor& from, const Tensor& made) = nullptr;
};
extern HandmadeObserver handmade_observer;

}  // namespace adjoint
