// The keyword arguments that all functions that make tensors share: dtype, layout, device,
// requires_grad, pin_memory. Read next: creation.cpp.
#pragma once
#include "dispatch/op.h"
#include "graph/hidden_reads.h"
#include "ops/creation/memory_format.h"

// Stands at the end of a schema; the options of a call are found from the position of `dtype`.
#define ADJOINT_OPTIONS                                                 \
  "*, dtype: dtype? = None, layout: any? = None, device: any? = None, " \
  "requires_grad: bool = False, pin_memory: bool? = False)"
// The same for functions that take a tensor as the model.
#define ADJOINT_LIKE_OPTIONS                                            \
  "*, dtype: dtype? = None, layout: any? = None, device: any? = None, " \
  "requires_grad: bool = False, pin_memory: bool? = False, memory_format: any? = None)"

namespace adjoint {

// Refuses every layout but strided, every device but the CPU and pinned memory, as a PyTorch
// without accelerators does. Defined in the bindings: these are Python objects.
void check_placement(const Value& layout, const Value& device, const Value& pin_memory);

class Options {
 public:
  // `first` is the position of `dtype` among the arguments.
  Options(Call& c, int first) : c_(c), first_(first) {
    check_placement(c[first + 1], c[first + 2], c[first + 4]);
    if (c.out) check_leaf(c.out.dtype());
  }
  // Refuses a leaf that could have no gradient, before memory is written or a number drawn.
  DType dtype(DType otherwise) const {
    DType d = c_[first_].is_none() ? otherwise : c_[first_].dtype();
    check_leaf(d);
    return d;
  }
  bool has_dtype() const { return !c_[first_].is_none(); }
  // An uninitialised tensor like another, for the options of a function that takes a model.
  Tensor like(const Tensor& model) const {
    return empty_like(model, dtype(model.dtype()),
                      memory_format_of(c_[first_ + 5], MemoryFormat::Preserve));
  }
  // The finished tensor, as a leaf if one is wanted.
  Value finish(const Tensor& t) const {
    if (!c_.flag(first_ + 3)) return t;
    check_leaf(t.dtype());
    t.set(kRequiresGrad);
    note_own_leaf(t.get());
    return t;
  }

 private:
  void check_leaf(DType d) const {
    if (!c_.flag(first_ + 3) || is_differentiable(d)) return;
    runtime_error(
        "Only Tensors of floating point and complex dtype can require gradients, but the dtype "
        "is ",
        d);
  }

  Call& c_;
  int first_;
};

// Writes the number as one element of `dtype`; RuntimeError where it does not fit, with PyTorch's
// exceptions: -1 is 255 in uint8, halves overflow to infinity.
void store_checked(const Value& v, DType dtype, void* out);
// Sets every element of the memory of a dense tensor.
void fill_dense(const Tensor& t, const Value& v);
// The dtype of a tensor made from this number.
DType inferred_dtype(const Value& v);

}  // namespace adjoint
