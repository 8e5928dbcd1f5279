// Memory formats. Read memory_format.h first.
#include "ops/creation/memory_format.h"

namespace adjoint {
namespace {

int rank_of(MemoryFormat format) { return format == MemoryFormat::ChannelsLast ? 4 : 5; }

}  // namespace

Dims strides_in_format(Span shape, MemoryFormat format) {
  if (format == MemoryFormat::Contiguous) return contiguous_strides(shape);
  if (format == MemoryFormat::Preserve)
    runtime_error("unsupported memory format option Preserve: there is no tensor to follow");
  if (shape.n != rank_of(format)) {
    runtime_error("required rank ", rank_of(format), " tensor to use channels_last",
                  format == MemoryFormat::ChannelsLast ? "" : "_3d", " format, got the shape ",
                  shape);
  }
  Dims strides(shape.n);
  strides[1] = 1;
  int64_t step = std::max<int64_t>(shape[1], 1);
  for (int i = shape.n - 1; i >= 0; --i) {
    if (i == 1) continue;
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

bool lies_in_format(const Tensor& t, MemoryFormat format) {
  if (format == MemoryFormat::Contiguous) return t.contiguous();
  if (format == MemoryFormat::Preserve || t.ndim() != rank_of(format)) return false;
  Dims strides = strides_in_format(t.shape(), format);
  for (int i = 0; i < t.ndim(); ++i) {
    if (t.size(i) != 1 && t.stride(i) != strides[i]) return false;
  }
  return true;
}

Tensor empty_like(const Tensor& like, DType dtype, MemoryFormat format) {
  if (format == MemoryFormat::Preserve) return empty_like(like, dtype);
  return empty_strided(like.shape(), strides_in_format(like.shape(), format), dtype);
}

}  // namespace adjoint
