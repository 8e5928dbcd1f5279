// Read self_overlap.h first.
#include "tensor/self_overlap.h"

#include <algorithm>

namespace adjoint {

bool places_repeat(Span shape, Span strides, int64_t item) {
  int order[kMaxDims], n = 0;
  bool sorted = true;
  for (int i = shape.n - 1; i >= 0; --i) {
    if (shape[i] == 0) return false;
    if (shape[i] == 1) continue;
    sorted &= n == 0 || strides[order[n - 1]] <= strides[i];
    order[n++] = i;
  }
  auto smaller = [&](int a, int b) { return strides[a] < strides[b]; };
  if (!sorted) std::sort(order, order + n, smaller);
  int64_t within = item - 1;
  for (int i = 0; i < n; ++i) {
    if (strides[order[i]] <= within) return true;
    within += (shape[order[i]] - 1) * strides[order[i]];
  }
  return false;
}

}  // namespace adjoint
