// Shapes of up to kInlineDims axes stand in the header, longer ones in memory of their own.
#include "tensor/geometry.h"

#include <algorithm>
#include <bit>

#include "tensor/checked.h"

namespace adjoint {

void size_overflow(int64_t a, char operation, int64_t b) {
  runtime_error("integer overflow in the sizes of this call: ", a, " ", operation, " ", b,
                " exceeds 64 bits. (fix: use smaller sizes)");
}

namespace {

[[noreturn, gnu::cold]] void refuse_place(const Storage* storage, Span shape, Span strides,
                                          int64_t offset, DType dtype) {
  checked_numel(shape, 1);  // what is wrong with the shape alone
  if (shape.n != strides.n) runtime_error("mismatch in length of strides and shape");
  if (offset < 0) runtime_error("Tensor: invalid storage offset ", offset);
  __int128 last = offset, first = offset;
  for (int i = 0; i < shape.n; ++i)
    (strides[i] < 0 ? first : last) += static_cast<__int128>(shape[i] - 1) * strides[i];
  auto room = static_cast<int64_t>(storage->bytes / item_size(dtype));
  if (last >= INT64_MAX || first < INT64_MIN) {
    runtime_error("Storage size calculation overflowed with sizes=", shape,
                  " and strides=", strides);
  }
  if (first < 0) {
    runtime_error("setStorage: sizes ", shape, ", strides ", strides, ", storage offset ", offset,
                  " begin ", static_cast<int64_t>(-first), " elements before the storage");
  }
  runtime_error("setStorage: sizes ", shape, ", strides ", strides, ", storage offset ", offset,
                " requiring ", static_cast<int64_t>(last + 1),
                " elements are out of bounds for storage of ", room, " elements");
}

// Loops may be compiled to instructions that need what C++ promises them. Own memory has it; arrays
// from outside can begin anywhere.
[[noreturn, gnu::cold]] void refuse_address(const char* data, uintptr_t step, DType dtype) {
  runtime_error("elements of ", dtype, " cannot lie at address ", static_cast<const void*>(data),
                ", which is not a multiple of ", step,
                " bytes. (fix: copy the array or the bytes first, or choose another offset)");
}

}  // namespace

Place place(const Storage* storage, Span shape, Span strides, int64_t offset, DType dtype) {
  int64_t numel = 1, first = offset, last = offset;
  bool contiguous = true, empty = false, far = false;
  bool bad = shape.n > kMaxDims || strides.n != shape.n || offset < 0;
  for (int i = shape.n - 1; i >= 0 && !bad; --i) {
    const int64_t size = shape[i], stride = strides[i];
    if (size == 1) continue;
    bad = size < 0;
    if (bad) break;
    empty |= size == 0;
    contiguous &= stride == numel;
    int64_t reach, &end = stride < 0 ? first : last;
    bad |= __builtin_mul_overflow(numel, size ? size : 1, &numel);
    far |= __builtin_mul_overflow(size - 1, stride, &reach);
    far |= __builtin_add_overflow(end, reach, &end);
  }
  const int64_t item = static_cast<int64_t>(item_size(dtype));
  const auto most = static_cast<int64_t>(storage->bytes >> std::countr_zero(item_size(dtype)));
  if (empty && !bad) {  // nothing is reached, however far the strides lead
    numel = 0;
    contiguous = true;
    offset = std::min(offset, most);
  } else if (bad || far || first < 0 || last >= most) [[unlikely]] {
    refuse_place(storage, shape, strides, offset, dtype);
  }
  char* data = static_cast<char*>(storage->data) + offset * item;
  const auto step = static_cast<uintptr_t>(is_complex(dtype) ? item / 2 : item);
  if ((reinterpret_cast<uintptr_t>(data) & (step - 1)) && !empty) [[unlikely]]
    refuse_address(data, step, dtype);
  return {numel, data, contiguous};
}

void store_strides(int64_t* to, Span shape, Span strides, int64_t numel) {
  constexpr int64_t kFar = int64_t{1} << 48;
  for (int i = 0; i < shape.n; ++i) {
    const bool used = shape[i] > 1 && numel;
    to[i] = used ? strides[i] : std::clamp(strides[i], -kFar, kFar);
  }
}

void set_geometry(TensorObject* t, Span shape, Span strides) {
  const int n = shape.n;
  const Dims new_shape(shape), new_strides(strides);  // they may be those of the tensor itself
  const Place at = place(t->storage, shape, strides, Tensor::borrow(t).offset(), t->dtype);
  int64_t* dims = n > kInlineDims ? new int64_t[2 * n] : t->dims;
  if (t->shape != t->dims) delete[] t->shape;
  t->shape = dims;
  t->strides = dims + (n > kInlineDims ? n : kInlineDims);
  t->ndim = static_cast<uint8_t>(n);
  std::copy_n(new_shape.data(), n, t->shape);
  store_strides(t->strides, new_shape, new_strides, at.numel);
  t->numel = at.numel;
  t->data = at.data;
  t->flags = at.contiguous ? t->flags | kContiguous : t->flags & ~kContiguous;
}

}  // namespace adjoint
