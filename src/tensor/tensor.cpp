// Making and freeing tensor headers, and the arithmetic of shapes and strides.
#include "tensor/tensor.h"

#include "python/interrupt.h"
#include "tensor/checked.h"
#include "tensor/fresh.h"
#include "tensor/geometry.h"
#include "tensor/handmade_tensors.h"
#include "tensor/modes.h"
#include "tensor/sparse.h"

namespace adjoint {

PyTypeObject* tensor_type = nullptr;
bool g_pending = false;
HandmadeObserver handmade_observer;
constinit ObjectPool header_pool(sizeof(TensorObject));

namespace {

void set_dims(TensorObject* t, int ndim) {
  t->ndim = static_cast<uint8_t>(ndim);
  if (ndim <= kInlineDims) {
    t->shape = t->dims;
    t->strides = t->dims + kInlineDims;
  } else {
    t->shape = new int64_t[2 * ndim];
    t->strides = t->shape + ndim;
  }
}

Tensor new_header(int ndim, DType dtype) {
  Tensor t = Tensor::steal(new_tensor_object());
  set_dims(t.get(), ndim);
  t->dtype = dtype;
  return t;
}

}  // namespace

std::string to_string(Span s) {
  std::string out = "[";
  for (int i = 0; i < s.n; ++i) out += (i ? ", " : "") + std::to_string(s[i]);
  return out + "]";
}

constinit thread_local uint32_t t_modes = 0;

TensorObject* new_tensor_object() { return fresh_header(); }

void raise_pending(const TensorObject* t) {
  throw std::logic_error(text("the memory of a ", t->dtype, " tensor of shape ",
                              Span{t->shape, t->ndim}, " was read although its ",
                              t->flags & kConjugate ? "conjugate" : "negative",
                              " bit is set. fix: call with resolve_conj().resolve_neg(), and "
                              "please report this"));
}

TensorExtra& extra_of(TensorObject* t) {
  if (!t->extra) t->extra = new TensorExtra;
  return *t->extra;
}

void free_tensor_memory(TensorObject* t) noexcept {
  if (Storage* s = std::exchange(t->storage, nullptr)) drop(s);
  t->data = nullptr;
  if (t->shape != t->dims) delete[] t->shape;
  t->shape = t->dims;
  t->strides = t->dims + kInlineDims;
  t->ndim = 0;
  t->numel = 0;
}

int64_t checked_numel(Span shape, size_t itemsize) {
  if (shape.n > kMaxDims) {
    value_error("a tensor has at most ", kMaxDims, " dimensions, got ", shape.n);
  }
  for (int64_t s : shape) {
    if (s < 0) {
      runtime_error("Trying to create tensor with negative dimension ", s, ": ", shape);
    }
  }
  int64_t n = 1, bytes = 0;
  bool overflow = false, has_zero = false;
  for (int64_t s : shape) {
    has_zero |= s == 0;
    overflow |= __builtin_mul_overflow(n, s ? s : 1, &n);
  }
  if (!has_zero) overflow |= __builtin_mul_overflow(n, static_cast<int64_t>(itemsize), &bytes);
  if (overflow) runtime_error("Storage size calculation overflowed with sizes=", shape);
  return has_zero ? 0 : n;
}

Dims contiguous_strides(Span shape) {
  Dims strides(shape.n);
  int64_t step = 1;
  for (int i = shape.n - 1; i >= 0; --i) {
    strides[i] = step;
    if (i) step = checked_mul(step, std::max<int64_t>(shape[i], 1));
  }
  return strides;
}

bool is_contiguous(Span shape, Span strides, int64_t numel) {
  if (numel == 0) return true;
  int64_t step = 1;
  for (int i = shape.n - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

bool is_dense(Span shape, Span strides) {
  int order[kMaxDims], n = 0;
  for (int i = 0; i < shape.n; ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1) order[n++] = i;
  }
  std::sort(order, order + n, [&](int a, int b) { return strides[a] < strides[b]; });
  int64_t step = 1;
  for (int i = 0; i < n; ++i) {
    if (strides[order[i]] != step) return false;
    step *= shape[order[i]];
  }
  return true;
}

Tensor empty(Span shape, DType dtype) {
  int64_t n = checked_numel(shape, item_size(dtype));
  Tensor t = new_header(shape.n, dtype);
  int64_t step = 1;
  for (int i = shape.n - 1; i >= 0; --i) {
    t->shape[i] = shape[i];
    t->strides[i] = step;
    step *= shape[i] > 0 ? shape[i] : 1;
  }
  t->numel = n;
  t->flags = kContiguous | (mode_on(kInferenceOn) ? kInference : 0);
  t->storage = new_storage(n * item_size(dtype));
  t->data = static_cast<char*>(t->storage->data);
  return t;
}

Tensor empty_strided(Span shape, Span strides, DType dtype) {
  int64_t n = checked_numel(shape, item_size(dtype));
  int64_t extent = n ? 1 : 0;
  for (int i = 0; n && i < shape.n; ++i) {
    if (strides[i] < 0) runtime_error("negative strides are not supported: ", strides);
    extent = checked_add(extent, checked_mul(shape[i] - 1, strides[i]));
  }
  Storage* s = new_storage(checked_mul(extent, static_cast<int64_t>(item_size(dtype))));
  Tensor t = on_storage(s, shape, strides, 0, dtype);
  drop(s);
  if (mode_on(kInferenceOn)) t.set(kInference);
  return t;
}

Tensor zeros(Span shape, DType dtype) {
  if (mode_on(kCaptured)) [[unlikely]] {
    if (Tensor made = handmade_observer.zeros(shape, dtype)) return made;
  }
  Tensor t = empty(shape, dtype);
  constexpr size_t kPiece = size_t{1} << 28;  // gigabytes take seconds
  const size_t bytes = t.numel() * t.itemsize();
  for (size_t at = 0; at < bytes; at += kPiece) {
    if (at) check_signals();
    std::memset(t->data + at, 0, std::min(kPiece, bytes - at));
  }
  return t;
}

Tensor empty_contiguous_like(const TensorObject* like, DType dtype) {
  if (like->ndim > kInlineDims) [[unlikely]]
    return empty({like->shape, like->ndim}, dtype);
  return Tensor::steal(fresh_like(like, dtype));
}

Tensor alias_contiguous(const TensorObject* from) {
  TensorObject* t = fresh_header_like(from, from->dtype);
  t->recording = t_birth >> 8;
  t->storage = from->storage;
  retain(t->storage);
  t->data = from->data;
  return Tensor::steal(t);
}

Tensor on_storage(Storage* storage, Span shape, Span strides, int64_t offset, DType dtype) {
  const Place at = place(storage, shape, strides, offset, dtype);
  Tensor t = new_header(shape.n, dtype);
  std::copy_n(shape.p, shape.n, t->shape);
  store_strides(t->strides, shape, strides, at.numel);
  t->numel = at.numel;
  t->flags = at.contiguous ? kContiguous : 0;
  t->recording = t_birth >> 8;
  retain(storage);
  t->storage = storage;
  t->data = at.data;
  return t;
}

Tensor alias(const Tensor& t) {
  Tensor a = on_storage(t->storage, t.shape(), t.strides(), t.offset(), t.dtype());
  a->flags |= t->flags & (kInference | kData | kPending);
  if (is_sparse(t)) [[unlikely]]
    share_parts(a, t);
  if (mode_on(kCaptured)) [[unlikely]]
    handmade_observer.aliased(t, a);
  return a;
}

}  // namespace adjoint
