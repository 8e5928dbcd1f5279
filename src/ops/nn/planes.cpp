#include "ops/nn/planes.h"

#include "ops/creation/memory_format.h"

namespace adjoint {

Axes3 three_axes(Span d, int64_t fill) {
  Axes3 a = {fill, fill, fill};
  for (int i = 0; i < d.n; ++i) a[static_cast<size_t>(3 - d.n + i)] = d[i];
  return a;
}

int64_t planes_of(const Tensor& t, int axes) {
  int64_t n = 1;
  for (int i = 0; i < t.ndim() - axes; ++i) n *= t.size(i);
  return n;
}

Dims with_planes(const Tensor& t, const Dims& size) {
  Dims shape(Span{t->shape, t.ndim() - size.size()});
  for (int64_t s : size) shape.push_back(s);
  return shape;
}

// Whether the strides rank the channels last; there may be gaps, as there are in a slice.
static bool ranks_channels_last(const Tensor& t) {
  const int n = t.ndim();
  if (n < 3 || t.stride(1) == 0) return false;
  int64_t least = 0;
  for (int k = 0; k < n; ++k) {  // channels, then the axes of the plane from the last one, then N
    const int d = k == 0 ? 1 : k == n - 1 ? 0 : n - k;
    if (t.size(d) == 0 || t.stride(d) < least) return false;
    if (d == 0 && least == t.stride(1)) return false;  // every order fits: planes of one element
    least = t.stride(d) * (t.size(d) > 1 ? t.size(d) : 1);
  }
  return true;
}

Tensor in_format_of(const Tensor& result, std::initializer_list<Tensor> inputs) {
  if (result.ndim() != 4 && result.ndim() != 5) return result;
  const MemoryFormat format =
      result.ndim() == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
  bool last = false;
  for (const Tensor& t : inputs)
    last |= t.ndim() == result.ndim() && !t.contiguous() && ranks_channels_last(t);
  if (!last) return result;
  Tensor out =
      empty_strided(result.shape(), strides_in_format(result.shape(), format), result.dtype());
  copy_into(out, result);
  return out;
}

DType pool_dtype(const char* name, DType d, bool integers) {
  const bool fits = is_floating(d) || (integers && is_integral(d) && d != DType::Bool);
  if (!fits) not_implemented("\"", name, "\" not implemented for ", d, "; convert with .float()");
  return is_integral(d) ? DType::Int64 : compute_dtype(d);
}

}  // namespace adjoint
