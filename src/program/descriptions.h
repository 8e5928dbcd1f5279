// What registers and instructions of a recording have in common, stated once: thousands of them have one shape, one
// kernel, the same numbers. They refer to it by pointers, which are equal for what is equal, so that they
// are small and quick to compare; every program of the recording keeps all of it alive.
#pragma once
#include <deque>
#include <span>

#include "dispatch/op.h"
#include "kernels/elementwise/elementwise.h"
#include "program/few.h"

namespace adjoint {

// What is known of a value before the program runs: the same in every run.
struct TensorGeometry {
  Dims shape;
  Dims strides;  // in elements
  DType dtype = DType::Float32;
  uint16_t pending = 0;  // Note [Pending signs] in tensor/tensor.h
  bool contiguous = true, dense = true;
  int64_t numel = 1;

  explicit TensorGeometry(const TensorObject* t);
  bool is_of(const TensorObject* t) const {
    return t->dtype == dtype && (t->flags & kPending) == pending &&
           Span(shape) == Span{t->shape, t->ndim} && Span(strides) == Span{t->strides, t->ndim};
  }
  bool operator==(const TensorGeometry& o) const {
    return this == &o ||
           (dtype == o.dtype && pending == o.pending && shape == o.shape && strides == o.strides);
  }
};

// The kernel that an elementwise op runs.
struct KernelCall {
  struct Operand {
    int read = -1;  // which of the instruction's reads, or
    Value number;
  };
  const Kernel* kernel = nullptr;
  DType common = DType::Float32;  // of the operands, after promotion
  std::vector<Operand> operands;
};

class Descriptions {
 public:
  const TensorGeometry* geometry(const TensorObject* t);
  // Arguments of an op. Those with a Python object (a generator) are like no others.
  const Value* arguments(const Op& op, const Value* args);
  // By operand: which of the reads it is, or -1 and the number.
  const KernelCall* kernel(const Kernel* k, DType common, std::span<const int> reads,
                           const Value* numbers);
  // The first element of a tensor.
  const char* element(const TensorObject* t);

 private:
  struct Arguments {
    const Op* op;
    std::vector<Value> values;
  };
  std::deque<TensorGeometry> geometries_;
  std::deque<Arguments> arguments_;
  std::deque<KernelCall> kernels_;
  struct alignas(16) Element {
    char bytes[16];
  };
  std::deque<Element> elements_;
  Lookup geometry_at_, arguments_at_, kernel_at_;
  const TensorGeometry* last_ = nullptr;
};

}  // namespace adjoint
