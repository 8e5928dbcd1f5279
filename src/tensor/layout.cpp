// Note [Memory order of results]
//
// A result lies densely in memory, and which of its axes is innermost follows PyTorch's rule, since
// a program can see it: `view` works on one order and refuses another, `reshape` shares memory or
// copies.
//
// The axes start in row-major order and are sorted, innermost first, by insertion. Two axes are
// compared by the first operand that tells them apart: the smaller stride goes inside; of equal
// strides, the axis of smaller size. A stride of zero (a broadcast axis) says nothing, so the next
// operand is asked; if none knows, the two stay as they are and the sort goes on with the axis
// beyond. That makes the comparison no order at all in the mathematical sense, and the result
// depends on the steps of the sort; the steps here are the ones whose outcome the conformance tests
// compare with PyTorch's.
#include "tensor/layout.h"

#include "tensor/checked.h"
#include "tensor/modes.h"

namespace adjoint {
namespace {

int64_t stride_along(const Lying& t, int axis, Span shape) {
  int own = axis - (shape.n - t.shape.n);
  if (own < 0 || (t.shape[own] == 1 && shape[axis] != 1)) return 0;
  return t.strides[own];
}

// Below zero: axis `a` lies inside `b`; above: outside; zero: nobody knows.
int compare_axes(int a, int b, Span shape, const Lying* operands, int count) {
  for (int k = 0; k < count; ++k) {
    int64_t sa = stride_along(operands[k], a, shape), sb = stride_along(operands[k], b, shape);
    if (sa == 0 || sb == 0) continue;
    if (sa != sb) return sa < sb ? -1 : 1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

}  // namespace

Dims strides_in_order_of(Span shape, const Lying* operands, int count) {
  int n = shape.n;
  int order[kMaxDims];  // innermost first
  for (int i = 0; i < n; ++i) order[i] = n - 1 - i;
  for (int i = 1; i < n; ++i) {
    int at = i;
    for (int j = i - 1; j >= 0; --j) {
      int c = compare_axes(order[j], order[at], shape, operands, count);
      if (c < 0) break;
      if (c > 0) std::swap(order[j], order[std::exchange(at, j)]);
    }
  }
  Dims strides(n);
  int64_t step = 1;
  for (int i = 0; i < n; ++i) {
    strides[order[i]] = step;
    step = checked_mul(step, std::max<int64_t>(shape[order[i]], 1));
  }
  return strides;
}

Dims strides_of_copy(const Lying& t) {
  if (is_dense(t.shape, t.strides)) return t.strides;
  return strides_in_order_of(t.shape, &t, 1);
}

Tensor empty_like(const Tensor& like, DType dtype) {
  if (like.contiguous()) {
    Tensor t = empty_contiguous_like(like.get(), dtype);  // with its strides of axes of length one
    if (mode_on(kInferenceOn)) t.set(kInference);
    return t;
  }
  return empty_strided(like.shape(), strides_of_copy({like.shape(), like.strides()}), dtype);
}

}  // namespace adjoint
