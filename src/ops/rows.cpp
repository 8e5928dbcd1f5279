#include "rows.h"

#include "elementwise_forward.h"

namespace adjoint {

Loop row_loop(const char* name, DType dtype) {
  return kernel_named(name).loop[static_cast<int>(dtype)];
}

Tensor with_axis_last(const Tensor& t, int dim) {
  if (dim >= t.ndim() - 1) return t;
  Dims shape(t.shape()), strides(t.strides());
  shape.erase(dim);
  shape.push_back(t.size(dim));
  strides.erase(dim);
  strides.push_back(t.stride(dim));
  return on_storage(t->storage, shape, strides, t.offset(), t.dtype());
}

Tensor as_rows(const Tensor& t, int dim, DType dtype) {
  return contiguous(cast(with_axis_last(t, dim), dtype));
}

[[noreturn]] void no_loop(const char* name, DType dtype) {
  not_implemented("\"", name, "\" not implemented for ", dtype,
                  ": it needs a floating-point tensor; convert with .float()");
}

DType row_dtype(const char* name, DType dtype) {
  if (!is_floating(dtype)) no_loop(name, dtype);
  return compute_dtype(dtype);
}

Tensor map_rows(const char* name, const Tensor* inputs, int count, int64_t dim, DType result) {
  const Tensor& like = inputs[0];
  const int axis = wrap_dim(dim, like.ndim());
  const DType d = compute_dtype(result);
  Tensor out = empty(like.shape(), result);
  if (out.numel() == 0) return out;
  const bool direct = axis >= like.ndim() - 1 && d == result;
  Tensor rows[4];
  rows[0] = direct ? out : empty(with_axis_last(like, axis).shape(), d);
  for (int k = 0; k < count; ++k) rows[k + 1] = as_rows(inputs[k], axis, d);
  const int64_t length = like.ndim() ? like.size(axis) : 1;
  const int64_t step = length * static_cast<int64_t>(item_size(d));
  char* base[4];
  for (int k = 0; k <= count; ++k) base[k] = rows[k]->data;
  Loop loop = row_loop(name, d);
  each_row(out.numel() / length, length, [&](int64_t r) {
    char* p[4];
    for (int k = 0; k <= count; ++k) p[k] = base[k] + r * step;
    loop(p, length);
  });
  if (!direct) copy_into(with_axis_last(out, axis), rows[0]);
  return out;
}

}  // namespace adjoint
