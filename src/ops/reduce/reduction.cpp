// Sums and means over axes. Read next: reduce_forward.h, extrema.cpp, statistics.cpp; scan.cpp for
// products.
#include "ops/reduce/reduce_forward.h"
#include "ops/sparse/rules.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// Sums and products: integers give int64, dtype= converts first.
Tensor accumulate(reduce::Kind kind, Tensor t, const Value& dims, bool keepdim,
                  const Value& dtype) {
  DType result = dtype.is_none() ? sum_dtype(t.dtype()) : dtype.dtype();
  if (dtype.is_none() && is_half(t.dtype())) result = t.dtype();
  DType accumulator = sum_dtype(result);
  // Narrow integers, and floats to integers: the elements are converted, not the sum.
  if (is_integral(result) && result != DType::Int64) t = cast(t, result);
  if (kind == reduce::NanSum && is_integral(accumulator)) kind = reduce::Sum;
  return reduce_tensor({kind, accumulator, result}, t, axes_mask(dims, t.ndim()), keepdim);
}

Tensor mean_of(Tensor t, const Value& dims, bool keepdim, const Value& dtype) {
  DType result = dtype.is_none() ? t.dtype() : dtype.dtype();
  if (is_integral(result)) {
    runtime_error("mean(): could not infer output dtype. ", dtype.is_none() ? "Input" : "Optional",
                  " dtype must be either a floating point or complex dtype. Got: ", result);
  }
  Reduction r{reduce::Sum, compute_dtype(result), result};
  r.mean = true;
  return reduce_tensor(r, t, axes_mask(dims, t.ndim()), keepdim);
}

Tensor spread_over(T g, C c) { return spread(g, c.shape(0), c.in(1), c.in(2).boolean()); }

double count_of(C c, const Value& dims) {
  Span shape = c.shape(0);
  return static_cast<double>(reduced_count(shape, axes_mask(dims, shape.n)));
}

}  // namespace

static const Op& sum_all_ =
    def("sum.all(input)", "The sum of all elements.")
        .forward(
            [](Call& c) -> Value { return accumulate(reduce::Sum, c.tensor(0), {}, false, {}); })
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"_spread">(g, c.shape(0)); })
        .linear()
        .batch(batch::over_sample<"sum">)
        .sums()
        .out_dtype(OutDType::Converts)
        .sparse(sparse::sum_all)
        .any_dtype();

static const Op& sum_ =
    def("sum(input, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None)",
        "The sum over the given axes, or over all; integers sum to int64.")
        .forward([](Call& c) -> Value {
          return accumulate(reduce::Sum, c.tensor(0), c[1], c.flag(2), c[3]);
        })
        .grad(0, nothing, spread_over)
        .linear()
        .node("SumBackward1")
        .batch(batch::along)
        .sums()
        .out_dtype(OutDType::Decides)
        .sparse(sparse::sum)
        .any_dtype();

static const Op& mean_all_ =
    def("mean.all(input)", "The mean of all elements.")
        .forward([](Call& c) -> Value { return mean_of(c.tensor(0), {}, false, {}); })
        .grad(0, nothing,
              [](T g, C c) -> Tensor { return op<"_spread">(g / count_of(c, {}), c.shape(0)); })
        .linear()
        .batch(batch::over_sample<"mean">)
        .sums()
        .out_dtype(OutDType::Converts)
        .any_dtype();

static const Op& mean_ =
    def("mean(input, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None)",
        "The mean over the given axes, or over all.")
        .forward([](Call& c) -> Value { return mean_of(c.tensor(0), c[1], c.flag(2), c[3]); })
        .grad(0, nothing, [](T g, C c) { return spread_over(g / count_of(c, c.in(1)), c); })
        .linear()
        .node("MeanBackward1")
        .batch(batch::along)
        .sums()
        .out_dtype(OutDType::Converts)
        .any_dtype();

static const Op& sum_to_size_ =
    def("sum_to_size(input, size: int[*])", "Sums over the axes along which `size` was broadcast.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          const Dims& size = c.ints(1);
          int lead = t.ndim() - size.size();
          if (lead < 0) runtime_error("size ", size, " is not expandable to size ", t.shape());
          uint64_t mask = all_axes(lead);
          for (int i = lead; i < t.ndim(); ++i) {
            int64_t want = size[i - lead];
            if (want != 1 && want != t.size(i))
              runtime_error("size ", size, " is not expandable to size ", t.shape());
            if (want == 1 && t.size(i) != 1) mask |= uint64_t{1} << i;
          }
          DType result = is_integral(t.dtype()) ? DType::Int64 : t.dtype();
          if (!mask) return size.size() ? t : cast(t, result);  // PyTorch sums to a number
          Tensor r = reduce_tensor({reduce::Sum, sum_dtype(result), result}, t, mask, true);
          if (!lead) return r;
          return on_storage(r->storage, size, Span{r->strides + lead, size.size()}, 0, r.dtype());
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                Span shape = c.shape(0);
                return op<"expand">(g, shape);
              })
        .linear()
        .no_out()
        .method_only()
        .node("SumToSizeBackward0")
        .batch([](Call& c, const int*) -> Value {
          Dims size = c.ints(1);
          Tensor t = c.tensor(0);
          Dims wanted(t.ndim(), 1);
          wanted[0] = t.size(0);
          for (int i = 0; i < size.size(); ++i) wanted[t.ndim() - size.size() + i] = size[i];
          Tensor summed = op<"sum_to_size">(t, wanted);
          size.insert(0, t.size(0));
          return op<"reshape">(summed, size);
        })
        .sums()
        .any_dtype();

}  // namespace adjoint
