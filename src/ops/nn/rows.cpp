// Bringing the axis of an op to where its loop wants it, and running the loop. Read rows.h first.
#include "ops/nn/rows.h"

#include "dispatch/elementwise_forward.h"

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

namespace {

// Columns are shared out in pieces that are whole cache lines and worth handing to a thread.
constexpr int64_t kLeastColumns = 64, kGrain = 16384;

Tensor map_columns(const char* name, const Tensor* inputs, int count, int axis, DType result) {
  const Tensor& like = inputs[0];
  const DType d = compute_dtype(result);
  const int64_t length = like.size(axis);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= like.size(i);
  for (int i = axis + 1; i < like.ndim(); ++i) inner *= like.size(i);
  Tensor held[4] = {empty(like.shape(), d)};
  for (int k = 0; k < count; ++k) held[k + 1] = contiguous(cast(inputs[k], d));
  char* base[4];
  for (int k = 0; k <= count; ++k) base[k] = held[k].bytes();
  Loop loop = row_loop(name, d);
  const int64_t item = static_cast<int64_t>(item_size(d));
  const int64_t wanted = std::max(kLeastColumns, kGrain / length / kLeastColumns * kLeastColumns);
  const int64_t piece = std::min(inner, wanted), pieces = (inner - 1) / piece + 1;
  each_row(outer * pieces, length * piece, [&](int64_t r) {
    const int64_t column = r % pieces * piece;
    int64_t geometry[2] = {inner, std::min(piece, inner - column)};
    char* p[5];
    const int64_t at = (r / pieces * length * inner + column) * item;
    for (int k = 0; k <= count; ++k) p[k] = base[k] + at;
    p[count + 1] = reinterpret_cast<char*>(geometry);
    loop(p, length);
  });
  return cast(held[0], result);
}

}  // namespace

Tensor map_rows(const char* name, const char* by_columns, const Tensor* inputs, int count,
                int64_t dim, DType result) {
  const Tensor& like = inputs[0];
  const int axis = wrap_dim(dim, like.ndim());
  const DType d = compute_dtype(result);
  if (like.numel() == 0) return empty(like.shape(), result);
  // Of few columns a vector would be mostly empty: moving the axis is cheaper then.
  int64_t inner = 1;
  for (int i = axis + 1; i < like.ndim(); ++i) inner *= like.size(i);
  if (inner >= 8) return map_columns(by_columns, inputs, count, axis, result);
  Tensor out = empty(like.shape(), result);
  const bool direct = axis >= like.ndim() - 1 && d == result;
  Tensor rows[4];
  rows[0] = direct ? out : empty(with_axis_last(like, axis).shape(), d);
  for (int k = 0; k < count; ++k) rows[k + 1] = as_rows(inputs[k], axis, d);
  const int64_t length = like.ndim() ? like.size(axis) : 1;
  const int64_t step = length * static_cast<int64_t>(item_size(d));
  char* base[4];
  for (int k = 0; k <= count; ++k) base[k] = rows[k].bytes();
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
