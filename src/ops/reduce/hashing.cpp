// hash_tensor: elements in one word, which changes with every bit of every one of them.
#include "ops/reduce/reduce_forward.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

// The bits of every element as a double or an int64, with the axes that are kept in front.
Tensor words_of(const Tensor& t, uint64_t mask) {
  Tensor wide = cast(t, is_floating(t.dtype()) ? DType::Float64 : DType::Int64);
  Dims shape, strides;
  for (bool reduced : {false, true}) {
    for (int i = 0; i < t.ndim(); ++i) {
      if ((mask >> i & 1) != reduced) continue;
      shape.push_back(t.size(i));
      strides.push_back(wide.stride(i));
    }
  }
  return contiguous(on_storage(wide->storage, shape, strides, wide.offset(), wide.dtype()));
}

uint64_t joined(const uint64_t* words, int64_t n) {
  uint64_t all = 0;
  for (int64_t i = 0; i < n; ++i) all ^= words[i];
  return all;
}

Value hash_forward(Call& c) {
  Tensor t = c.tensor(0);
  const uint64_t mask = axes_mask(c[1], t.ndim());
  check_not_empty(t, mask, c[1].is_none() || c[1].ints().empty(), "hash_tensor");
  const int64_t mode = c.integer(3);
  if (mode != 0) runtime_error("Unknown hash_tensor mode: ", mode, ". fix: use mode=0");
  if (is_complex(t.dtype()) || is_wide_unsigned(t.dtype())) {
    not_implemented(
        "\"hash_tensor\" not implemented for '", t.dtype(), "'. fix: hash ",
        is_complex(t.dtype()) ? "view_as_real(input)" : "input.view() as a signed dtype");
  }
  Tensor out = empty(reduced_shape(t.shape(), mask, c.flag(2)), DType::UInt64);
  if (t.numel() == 0) return out;
  Tensor words = words_of(t, mask);
  const int64_t n = reduced_count(t.shape(), mask);
  const auto* from = reinterpret_cast<const uint64_t*>(words->data);
  auto* to = out.data<uint64_t>();
  WithoutGil release(t.numel() >= kReleaseGil);
  for (int64_t i = 0; i < out.numel(); ++i) to[i] = joined(from + i * n, n);
  return out;
}

}  // namespace

static const Op& hash_tensor_ =
    def("hash_tensor(input, dim: int[]? = [], *, keepdim: bool = False, mode: int = 0)",
        "The exclusive or of the bits of elements over the given axes, or of all, as uint64: of "
        "floats as float64, of integers as int64.")
        .forward(hash_forward)
        .batch(batch::along)
        .out_dtype(OutDType::Exact)
        .any_dtype();

}  // namespace adjoint
