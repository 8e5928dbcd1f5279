// Which bytes tensors touch, and copies where they meet. Read overlap.h first.
#include "dispatch/overlap.h"

#include "dispatch/operands.h"
#include "tensor/self_overlap.h"

namespace adjoint {
namespace {

struct Bytes {
  const char *first, *end;
};

Bytes bytes_of(const TensorObject* t) {
  const auto item = static_cast<int64_t>(item_size(t->dtype));
  Bytes b{t->data, t->data + item};
  for (int i = 0; i < t->ndim; ++i) {
    int64_t reach = (t->shape[i] - 1) * t->strides[i] * item;
    (reach < 0 ? b.first : b.end) += reach;
  }
  return b;
}

bool step_together(const TensorObject* a, const TensorObject* b) {
  const Span shape{a->shape, a->ndim}, strides{a->strides, a->ndim};
  return a->data == b->data && item_size(a->dtype) == item_size(b->dtype) &&
         shape == Span{b->shape, b->ndim} && strides == Span{b->strides, b->ndim} &&
         ((a->flags & kContiguous) || !places_repeat(shape, strides));
}

Tensor copied(const Tensor& t) {
  Tensor copy = empty(t.shape(), t.dtype());
  copy_into(copy, t);
  return copy;
}

}  // namespace

void refuse_shared_out(const Op& op, const Value* args, const Tensor& out) {
  if (!op.facts.out_apart) return;
  each_tensor(op, args, [&](const Tensor& t) {
    bool dense = is_dense(t.shape(), t.strides()) && is_dense(out.shape(), out.strides());
    if (!dense || !share_bytes(t.get(), out.get())) return;
    runtime_error(op.name,
                  "(): unsupported operation: some elements of the input tensor and the written-to "
                  "tensor refer to a single memory location. Please clone() the tensor before "
                  "performing the operation.");
  });
}

bool share_bytes(const TensorObject* a, const TensorObject* b) {
  if (a->numel == 0 || b->numel == 0 || !overlap(a->storage, b->storage)) return false;
  Bytes p = bytes_of(a), q = bytes_of(b);
  return p.first < q.end && q.first < p.end;
}

Tensor apart(const Tensor& from, const Tensor& to) {
  return share_bytes(from.get(), to.get()) ? copied(from) : from;
}

Tensor in_step(const Tensor& from, const Tensor& to) {
  bool shared = share_bytes(from.get(), to.get()) && !step_together(from.get(), to.get());
  return shared ? copied(from) : from;
}

}  // namespace adjoint
