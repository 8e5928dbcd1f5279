// AccumulateGrad: adding a gradient into leaf.grad.
//
// The first gradient is taken over if nobody else can see its memory and it lies in memory as the
// leaf does; otherwise it is copied, so that changing one gradient changes no other. Later ones are
// added in place, or, while the pass itself is recorded, into a new tensor.
#include "engine/accumulate.h"

#include <mutex>

#include "dispatch/elementwise_forward.h"
#include "dispatch/program_recorder.h"
#include "dispatch/view.h"
#include "engine/engine.h"
#include "graph/back_links.h"
#include "graph/change_log.h"
#include "kernels/elementwise/elementwise.h"
#include "python/gil.h"
#include "tensor/donated_arrays.h"
#include "tensor/sparse.h"

namespace adjoint {

bool add_directly(const Tensor& sum, const Tensor& grad) {
  static const Kernel& kernel = kernel_named("add");
  Loop loop = kernel.loop[static_cast<int>(sum.dtype())];
  if (!loop || is_half(sum.dtype()) || grad.dtype() != sum.dtype() || !grad.contiguous() ||
      !sum.contiguous() || ((sum->flags | grad->flags) & kUnusual) ||
      !(grad.shape() == sum.shape())) {
    return false;
  }
  char* data[3] = {sum.bytes(), sum.bytes(), grad.bytes()};
  size_t item[3] = {sum.itemsize(), sum.itemsize(), sum.itemsize()};
  WithoutGil release(sum.numel() >= kReleaseGil);
  run_contiguous(loop, item, data, 3, sum.numel());
  return true;
}

namespace {

// Note [Leaves shared by threads]. Adding a large gradient lets go of the GIL, and another thread's
// pass may reach the same leaf meanwhile: its read, sum and store must not fall in between. One
// lock serves all leaves, since the sum is bound by memory; it is waited for without the GIL, which
// its holder needs to finish. Recursive, because a collection of garbage during the sum may run
// anything. Small gradients are added without letting go of the GIL; where an allocation may do
// that behind our back (by a collection), add_to_leaf looks again before it stores.
class AccumulateLock {
 public:
  explicit AccumulateLock(bool wanted) {
    if (!wanted) return;
    lock_ = std::unique_lock(mutex(), std::try_to_lock);
    if (lock_) return;
    WithoutGil release;
    lock_.lock();
  }

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex m;
    return m;
  }
  std::unique_lock<std::recursive_mutex> lock_;
};

// Whether nobody else can see the memory of a gradient.
bool is_free(const Tensor& grad) {
  return grad.unique() ||
         (is_adopted(grad->storage) && Py_REFCNT(grad.get()) == 1 &&
          grad->storage->references == 1 && !grad->base && !grad->extra && !grad->weakrefs);
}

bool lies_like(const Tensor& grad, const TensorObject* leaf) {
  if (grad.contiguous() && (leaf->flags & kContiguous)) return true;
  Span shape{leaf->shape, leaf->ndim}, strides{leaf->strides, leaf->ndim};
  if (!is_dense(shape, strides)) return grad.contiguous();
  for (int i = 0; i < leaf->ndim; ++i) {
    if (shape[i] != 1 && grad.stride(i) != strides[i]) return false;
  }
  return true;
}

// The same for one that is sparse.
bool is_free_sparse(const Tensor& grad) {
  const Tensor& values = parts_of(grad).values;
  return Py_REFCNT(grad.get()) == 1 && Py_REFCNT(values.get()) == 1 &&
         values->storage->references == 1;
}

Tensor own_copy(const Tensor& grad, const TensorObject* leaf) {
  if (is_sparse(grad)) return is_free_sparse(grad) ? grad : op<"clone">(grad).tensor();
  // A copy keeps the layout of a dense tensor; an expanded one gets the contiguous layout.
  if (lies_like(grad, leaf)) return op<"clone">(grad);
  Span shape{leaf->shape, leaf->ndim}, strides{leaf->strides, leaf->ndim};
  return op<"_with_strides">(grad,
                             is_dense(shape, strides) ? Dims(strides) : contiguous_strides(shape));
}

void add_in_place(const Tensor& held, const Tensor& grad) {
  if (is_sparse(grad) && !is_sparse(held) && held.contiguous()) {
    op_inplace<"_add_entries">(held, grad);  // nothing but the rows that it has
    return;
  }
  bool plain = !held->storage->read_only && !held.is_view() && !mode_on(kCaptured);
  if (plain && add_directly(held, grad)) return bump_version(held);
  op_inplace<"add">(held, grad);
}

void add_to_leaf(TensorObject* leaf, const Tensor& grad) {
  AccumulateLock lock(grad.numel() >= kReleaseGil);
  for (;;) {
    Tensor held = Tensor::borrow(leaf->grad);
    // A sum with a sparse gradient may have another layout.
    const bool dense_onto_sparse = held && is_sparse(held) && !is_sparse(grad);
    if (held && !grad_enabled() && !dense_onto_sparse) return add_in_place(held, grad);
    Tensor sum;
    if (held) {
      sum = held + grad;
    } else if (is_free(grad) && !grad.pending() && lies_like(grad, leaf)) {
      sum = grad;
    } else {
      sum = own_copy(grad, leaf);
    }
    if (leaf->grad != held.get()) continue;  // another thread was quicker
    log_change(leaf);
    return give_grad(leaf, std::move(sum));
  }
}

}  // namespace

void accumulate_grad(TensorObject* leaf, const Tensor& grad) {
  // requires_grad may have been turned off after the graph was recorded: the leaf is frozen.
  if (!(leaf->flags & kRequiresGrad)) return;
  Tensor alive = Tensor::borrow(leaf);
  if (grad && captured() && t_recorder->accumulate(leaf, grad)) return;
  if (grad) add_to_leaf(leaf, grad);
  if (leaf->extra && leaf->extra->post_accumulate)
    engine_hooks.post_accumulate(leaf->extra->post_accumulate, leaf);
}

}  // namespace adjoint
