// Read reduce_forward.h first.
#include "ops/reduce/reduce_forward.h"

#include "dispatch/kernel_observer.h"
#include "dispatch/view.h"
#include "kernels/convert.h"
#include "ops/reduce/interruptible.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {

uint64_t axes_mask(const Value& dims, int ndim) {
  if (dims.is_none()) return all_axes(ndim);
  if (dims.kind() == Value::Int) return uint64_t{1} << wrap_dim(dims.integer(), ndim);
  if (dims.ints().empty()) return all_axes(ndim);
  uint64_t mask = 0;
  for (int64_t d : dims.ints()) {
    uint64_t bit = uint64_t{1} << wrap_dim(d, ndim);
    if (mask & bit) {
      runtime_error("dim ", d < 0 ? d + std::max(ndim, 1) : d,
                    " appears multiple times in the list of dims");
    }
    mask |= bit;
  }
  return mask;
}

int64_t reduced_count(Span shape, uint64_t mask) {
  int64_t n = 1;
  for (int i = 0; i < shape.n; ++i) n *= mask >> i & 1 ? shape[i] : 1;
  return n;
}

Dims reduced_shape(Span shape, uint64_t mask, bool keepdim) {
  Dims out;
  for (int i = 0; i < shape.n; ++i) {
    if (!(mask >> i & 1))
      out.push_back(shape[i]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

void check_not_empty(const Tensor& t, uint64_t mask, bool all, const char* name) {
  if (reduced_count(t.shape(), mask) != 0) return;
  if (all && t.numel() == 0) {
    runtime_error(name,
                  "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                  "reduction dim with the 'dim' argument.");
  }
  for (int i = 0; i < t.ndim(); ++i) {
    if ((mask >> i & 1) && t.size(i) == 0)
      index_error(name, "(): Expected reduction dim ", i, " to have non-zero size.");
  }
}

namespace {

// The kept axes lie in the order in which the input's lay in memory.
Tensor new_result(Span shape, uint64_t mask, bool keepdim, const int* order, bool ordered,
                  DType d) {
  Dims out = reduced_shape(shape, mask, keepdim);
  if (ordered) return empty(out, d);
  Dims strides(out.size(), 1);
  int64_t step = 1;
  int kept = __builtin_popcountll(all_axes(shape.n) & ~mask);
  for (int k = kept - 1; k >= 0; --k) {
    int axis = order[k];
    int at = keepdim ? axis : axis - __builtin_popcountll(mask & all_axes(axis));
    strides[at] = step;
    step *= std::max<int64_t>(shape[axis], 1);
  }
  return empty_strided(out, strides, d);
}

void fill_identity(const Reduction& r, const Tensor& out) {
  alignas(16) char value[16];
  reduce::Kind join = r.kind <= reduce::Min ? r.kind : reduce::Sum;
  reduce::loops(join, r.accumulator).identity(value, 1);
  if (r.mean) store_scalar(r.accumulator, value, std::complex<double>(__builtin_nan("")));
  std::complex<double> z = load_complex(r.accumulator, value);
  if (r.mean && is_complex(r.result)) z = {__builtin_nan(""), __builtin_nan("")};
  store_scalar(r.result, value, z);
  fill_run(out->data, r.result, value, out.numel());
}

}  // namespace

Tensor reduce_tensor(const Reduction& r, const Tensor& t, uint64_t mask, bool keepdim) {
  const int64_t n = t.numel();
  // Everything, from contiguous memory the loop can read: no plan is needed, unless it is watched.
  if (!t_kernel_observer && mask == all_axes(t.ndim()) && t.contiguous() &&
      t.dtype() == r.accumulator && r.result == r.accumulator && n > 0 && n <= 65536 && !keepdim &&
      !r.centre) {
    Tensor out = empty({}, r.result);
    {
      WithoutGil release(n >= kReleaseGil);
      reduce::loops(r.kind, r.accumulator).row(t->data, n, out->data, nullptr);
    }
    double by = r.mean ? static_cast<double>(n) : r.divisor;
    if (by != 0) {
      if (r.result == DType::Float32)
        *out.data<float>() /= static_cast<float>(by);
      else if (r.result == DType::Float64)
        *out.data<double>() /= by;
      else
        store_scalar(r.result, out->data, load_complex(r.result, out->data) / by);
    }
    return out;
  }
  reduce::Problem p;
  int order[kMaxDims];
  bool ordered;
  reduce::plan_axes(t.shape(), t.strides(), t.itemsize(), mask, &p, order, &ordered);
  Tensor out = new_result(t.shape(), mask, keepdim, order, ordered, r.result);
  if (n == 0) {
    fill_identity(r, out);
    return out;
  }
  p.kind = r.kind;
  p.data = t->data;
  p.dtype = t.dtype();
  p.accumulator = r.accumulator;
  p.out = out->data;
  p.out_dtype = r.result;
  p.divisor = r.mean ? static_cast<double>(reduced_count(t.shape(), mask)) : r.divisor;
  p.centre = r.centre;
  if (t_kernel_observer) [[unlikely]]
    t_kernel_observer->note(p, t);
  {
    Interruptible release(n >= kReleaseGil, t->storage, out->storage);
    reduce::run(p);
    release.finish();
  }
  return ordered || r.memory_order ? out : contiguous(out);
}

// --- the transpose of a sum ----------------------------------------------------------------------
static const Op& spread_ =
    def("_spread(input, size: int[], dim: int[]? = None, keepdim: bool = False)",
        "A view of the result of a sum over `dim` as every element of `size` sees it.")
        .forward([](Call& c) -> Value {
          Tensor g = c.tensor(0);
          const Dims& size = c.ints(1);
          uint64_t mask = axes_mask(c[2], size.size());
          bool keepdim = c.flag(3);
          Dims strides(size.size(), 0);
          for (int i = 0, k = 0; i < size.size(); ++i) {
            bool reduced = mask >> i & 1;
            if (!reduced) strides[i] = g.stride(k);
            k += !reduced || keepdim;
          }
          return make_view(g, size, strides, g.offset());
        })
        .grad(0, nothing,
              [](const Tensor& g, Context& c) -> Tensor {
                if (c.in(2).is_none() && !c.in(3).boolean()) return op<"sum.all">(g);
                return op<"sum">(g, c.in(2), c.in(3));
              })
        .linear()
        .view()
        .internal()
        .node("ExpandBackward0")
        .batch(batch::by_sizes);

Tensor spread(const Tensor& g, Span shape, const Value& dims, bool keepdim) {
  return op<"_spread">(g, shape, dims, keepdim);
}

}  // namespace adjoint
