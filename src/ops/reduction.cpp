// Reductions over axes.
#include "../kernels/convert.h"
#include "op.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// The axes to reduce, as flags; all of them when the list is None or empty.
std::vector<bool> reduced_axes(const Value& dims, int ndim) {
  std::vector<bool> out(std::max(ndim, 1), dims.is_none() || dims.ints().empty());
  if (dims.is_none()) return out;
  for (int64_t d : dims.ints()) {
    int i = wrap_dim(d, ndim);
    if (out[i] && !dims.ints().empty())
      runtime_error("dim ", d, " appears multiple times in the list of dims");
    out[i] = true;
  }
  return out;
}

Value sum_forward(Call& c) {
  Tensor t = c.tensor(0);
  DType d = c[3].is_none() ? (is_integral(t.dtype()) ? DType::Int64 : t.dtype()) : c[3].dtype();
  t = contiguous(cast(t, d));
  std::vector<bool> reduce = reduced_axes(c[1], t.ndim());
  Dims kept, strides;
  for (int i = 0; i < t.ndim(); ++i) kept.push_back(reduce[i] ? 1 : t.size(i));
  Tensor out = zeros(kept, d);
  Dims os = contiguous_strides(kept);
  for (int64_t i = 0; i < t.numel(); ++i) {
    int64_t rest = i, at = 0;
    for (int k = t.ndim() - 1; k >= 0; --k) {
      int64_t x = rest % t.size(k);
      rest /= t.size(k);
      if (!reduce[k]) at += x * os[k];
    }
    char* p = out->data + at * out.itemsize();
    store_scalar(d, p, load_complex(d, p) + load_complex(d, t->data + i * t.itemsize()));
  }
  if (c.flag(2)) return out;
  Dims shape;
  for (int i = 0; i < t.ndim(); ++i) {
    if (!reduce[i]) shape.push_back(t.size(i));
  }
  return on_storage(out->storage, shape, contiguous_strides(shape), 0, d);
}

// A gradient of the reduced shape, broadcast back over the reduced axes.
Tensor spread(T g, C c) {
  Span shape = c.shape(0);
  Tensor kept = g;
  if (!c.in(2).boolean() && shape.n > 0) {
    std::vector<bool> reduce = reduced_axes(c.in(1), shape.n);
    Dims with_ones;
    for (int i = 0; i < shape.n; ++i) with_ones.push_back(reduce[i] ? 1 : shape[i]);
    kept = op<"view">(op<"contiguous">(g), with_ones);
  }
  return op<"expand">(kept, shape);
}

}  // namespace

static const Op& sum_ =
    def("sum(input, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None)",
        "The sum over the given axes, or over all.")
        .forward(sum_forward)
        .grad(0, nothing, spread)
        .linear();

static const Op& sum_to_size_ =
    def("sum_to_size(input, size: int[*])", "Sums over the axes along which `size` was broadcast.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          const Dims& size = c.ints(1);
          int lead = t.ndim() - size.size();
          if (lead < 0) runtime_error("size ", size, " is not expandable to size ", t.shape());
          Dims axes;
          for (int i = 0; i < t.ndim(); ++i) {
            int64_t want = i < lead ? 1 : size[i - lead];
            if (want != 1 && want != t.size(i))
              runtime_error("size ", size, " is not expandable to size ", t.shape());
            if (i < lead || (want == 1 && t.size(i) != 1)) axes.push_back(i);
          }
          if (axes.empty()) return c[0];
          GradMode off(false);
          Tensor r = op<"sum">(t, axes, true);
          return on_storage(r->storage, size, contiguous_strides(size), 0, r.dtype());
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                Span shape = c.shape(0);
                return op<"expand">(g, shape);
              })
        .linear()
        .no_out()
        .method_only()
        .node("SumToSizeBackward0");

}  // namespace adjoint
