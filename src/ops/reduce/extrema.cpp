// Maxima and minima, their places, and the two reductions of truth values: all and any.
#include "ops/reduce/reduce_forward.h"
#include "ops/reduce/reduce_tangent.h"
#include "ops/shape/along_axis.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

constexpr const char* kLost = "passes the gradient on to the one that won: here it never did";

[[noreturn]] void no_order(const char* name, DType d) {
  not_implemented("\"", name, "\" not implemented for '", d, "': complex numbers have no order");
}

// --- values --------------------------------------------------------------------------------------
Tensor extreme_values(bool largest, T t, const Value& dims, bool keepdim, const char* name) {
  if (is_complex(t.dtype())) no_order(name, t.dtype());
  uint64_t mask = axes_mask(dims, t.ndim());
  bool all = dims.is_none() || (dims.kind() == Value::Ints && dims.ints().empty());
  check_not_empty(t, mask, all, name);
  return reduce_tensor({largest ? reduce::Max : reduce::Min, compute_dtype(t.dtype()), t.dtype()},
                       t, mask, keepdim);
}

Tensor both_nan_or_equal(T x, T value) {
  Tensor equal = op<"eq">(x, value);
  if (!is_floating(x.dtype())) return equal;
  return op<"logical_or">(equal, op<"logical_and">(op<"isnan">(x), op<"isnan">(value)));
}

// The gradient goes in equal shares to all elements that are the extremum.
Tensor shared(T g, T x, T value, const Value& dims, bool keepdim) {
  Tensor equal = op<"eq">(x, spread(value, x.shape(), dims, keepdim));
  Tensor mask = op<"_to_copy">(equal, g.dtype());
  Tensor count = op<"sum">(mask, dims, keepdim);
  return mask * spread(g / count, x.shape(), dims, keepdim);
}

// Only `max` and `min` of everything count NaN as equal to NaN, as in PyTorch. A NaN gradient, too,
// goes nowhere else.
Tensor whole_extreme_grad(T g, C c) {
  Tensor equal = both_nan_or_equal(c.tensor(0), c.out());
  return op<"where">(equal, g / op<"sum">(equal).tensor(), 0.0);
}
Tensor axes_extreme_grad(T g, C c) {
  return shared(g, c.tensor(0), c.out(), c.in(1), c.in(2).boolean());
}

// --- places --------------------------------------------------------------------------------------
Tensor places(bool largest, T t, int axis, bool keepdim) {
  Tensor x = contiguous(is_half(t.dtype()) ? cast(t, DType::Float32) : t);
  Tensor index = empty(reduced_shape(t.shape(), uint64_t{1} << axis, keepdim), DType::Int64);
  scan::Shape s = around(t.shape(), axis);
  WithoutGil release(t.numel() >= kReleaseGil);
  scan::find_extremum(largest, x.dtype(), x.bytes(), index.data<int64_t>(), s);
  return index;
}

Value arg_extreme(Call& c, bool largest, const char* name) {
  Tensor t = c.tensor(0);
  if (is_complex(t.dtype()) || t.dtype() == DType::Bool) {
    runtime_error(name, "(): does not support ", is_complex(t.dtype()) ? "complex" : "bool",
                  " input");
  }
  bool keepdim = c.flag(2);
  if (!c[1].is_none()) {
    int axis = wrap_dim(c.integer(1), t.ndim());
    if (t.ndim() && t.size(axis) == 0)
      index_error(name, "(): Expected reduction dim ", axis, " to have non-zero size.");
    return places(largest, t, axis, keepdim);
  }
  if (t.numel() == 0) {
    index_error(name, "(): Expected reduction dim to be specified for input.numel() == 0.");
  }
  Tensor flat = contiguous(t);
  flat = on_storage(flat->storage, Dims{t.numel()}, Dims{1}, flat.offset(), t.dtype());
  Tensor index = places(largest, flat, 0, false);
  if (!keepdim) return index;
  Dims ones(t.ndim(), 1);
  return on_storage(index->storage, ones, ones, 0, DType::Int64);
}

Value extreme_along(Call& c, bool largest, const char* name) {
  Tensor t = c.tensor(0);
  if (is_complex(t.dtype())) runtime_error(name, "(): does not support complex input");
  int axis = wrap_dim(c.integer(1), t.ndim());
  check_not_empty(t, uint64_t{1} << axis, false, name);
  Tensor index = places(largest, t, axis, true);
  GradMode off(false);
  Tensor values = op<"_gather_along">(t, index, axis);
  if (!c.flag(2) && t.ndim()) {
    Dims shape = reduced_shape(t.shape(), uint64_t{1} << axis, false);
    Dims strides = contiguous_strides(shape);
    values = on_storage(values->storage, shape, strides, 0, values.dtype());
    index = on_storage(index->storage, shape, strides, 0, DType::Int64);
  }
  return Tensors{values, index};
}

void extreme_along_vjp(C c, Tensor* grads) {
  Tensor g = c.grad(0), index = c.out(1);
  Span shape = c.shape(0);
  int axis = wrap_dim(c.in(1).integer(), shape.n);
  if (shape.n == 0) {
    grads[0] = g;
    return;
  }
  if (!c.in(2).boolean()) {
    g = op<"unsqueeze">(g, axis);
    index = op<"unsqueeze">(index, axis);
  }
  grads[0] = op<"_scatter_along">(g, index, shape[axis], axis);
}

// --- moving elements along an axis by index. Indices come from the loops above, mostly: those of a program from a
// file may be anything.
template <class F>
void each_index(T index, int axis, int64_t length, F&& f) {
  scan::Shape s = around(index.shape(), axis);
  const int64_t* at = index.data<int64_t>();
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.n; ++i) {
      for (int64_t j = 0; j < s.inner; ++j) {
        int64_t small = (o * s.n + i) * s.inner + j;
        if (at[small] < 0 || at[small] >= length) [[unlikely]]
          index_error("index ", at[small], " is out of bounds for an axis of size ", length);
        f(small, (o * length + at[small]) * s.inner + j);
      }
    }
  }
}

// Adds where several go to one place, which only running maxima do.
template <class E>
void add_along(T out, T g, T index, int axis) {
  E* to = out.data<E>();
  const E* from = g.data<E>();
  each_index(index, axis, out.ndim() ? out.size(axis) : 1,
             [&](int64_t small, int64_t large) { to[large] += from[small]; });
}

// --- truth ---------------------------------------------------------------------------------------
Value truth(Call& c, bool all, const Value& dims, bool keepdim) {
  Tensor t = c.tensor(0);
  DType result = t.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool;
  // An empty list of axes reduces none here.
  bool none = dims.kind() == Value::Ints && dims.ints().empty();
  uint64_t mask = none ? 0 : axes_mask(dims, t.ndim());
  if (t.numel() == 0) {
    Tensor out = zeros(reduced_shape(t.shape(), mask, keepdim), result);
    if (all) std::memset(out.bytes(), 1, out.numel());
    return out;
  }
  return reduce_tensor({all ? reduce::Min : reduce::Max, DType::Bool, result}, t, mask, keepdim);
}

// argmax, argmin and aminmax: one axis, or all.
Value one_or_all(Call& c, const int* axes) {
  if (!c[1].is_none()) return batch::along(c, axes);
  Tensor t = c.tensor(0);
  int ndim = t.ndim() - 1;
  bool keepdim = c.flag(2);
  c.args[0] = batch::flat_sample(t);
  c.args[1] = 1;
  c.args[2] = false;
  Value out = apply(c.op, c.args);
  if (!keepdim || ndim == 0) return out;
  Dims kept(ndim + 1, 1);
  kept[0] = t.size(0);
  if (out.is_tensor()) return op<"reshape">(out, kept);
  Tensors ts;
  for (const Tensor& r : out.tensors()) ts.push_back(op<"reshape">(r, kept));
  return ts;
}

}  // namespace

static const Op& gather_along_ =
    def("_gather_along(input, index: Tensor, dim: int)", "The elements at `index` along an axis.")
        .forward([](Call& c) -> Value {
          Tensor t = contiguous(c.tensor(0)), index = contiguous(c.tensor(1));
          int axis = wrap_dim(c.integer(2), t.ndim());
          Tensor out = empty(index.shape(), t.dtype());
          size_t item = t.itemsize();
          each_index(index, axis, t.ndim() ? t.size(axis) : 1, [&](int64_t small, int64_t large) {
            std::memcpy(out.bytes() + small * item, t.bytes() + large * item, item);
          });
          return out;
        })
        .grad(0, input(1),
              [](T g, C c) -> Tensor {
                Span shape = c.shape(0);
                int axis = wrap_dim(c.in(2).integer(), shape.n);
                return op<"_scatter_along">(g, c.in(1), shape.n ? shape[axis] : 1, axis);
              })
        .jvp([](Context& c, const Tensor* d) -> Value {
          return op<"_gather_along">(d[0], c.in(1), c.in(2));
        })
        .internal()
        .node("GatherBackward0")
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& scatter_along_ =
    def("_scatter_along(input, index: Tensor, length: int, dim: int)",
        "Zeros with the elements of `input` added at `index` along an axis of the given length.")
        .forward([](Call& c) -> Value {
          Tensor g = contiguous(c.tensor(0)), index = contiguous(c.tensor(1));
          int axis = wrap_dim(c.integer(3), g.ndim());
          DType d = compute_dtype(g.dtype());
          g = cast(g, d);
          Dims shape(g.shape());
          if (g.ndim()) shape[axis] = c.integer(2);
          Tensor out = zeros(shape, d);
          if (d == DType::Float32)
            add_along<float>(out, g, index, axis);
          else if (d == DType::Float64)
            add_along<double>(out, g, index, axis);
          else if (d == DType::Complex64)
            add_along<complex64_t>(out, g, index, axis);
          else if (d == DType::Complex128)
            add_along<complex128_t>(out, g, index, axis);
          else
            throw std::logic_error("_scatter_along is for gradients");
          return cast(out, c.tensor(0).dtype());
        })
        .grad(0, input(1),
              [](T g, C c) -> Tensor { return op<"_gather_along">(g, c.in(1), c.in(3)); })
        .jvp([](Context& c, const Tensor* d) -> Value {
          return op<"_scatter_along">(d[0], c.in(1), c.in(2), c.in(3));
        })
        .internal()
        .node("ScatterAddBackward0")
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& max_ = def("max(input)", "The largest element; NaN if there is one.")
                            .forward([](Call& c) -> Value {
                              return extreme_values(true, c.tensor(0), {}, false, "max");
                            })
                            .grad(0, input(0) | output(), whole_extreme_grad)
                            .jvp([](C c, const Tensor* t) -> Value {
                              return reduce_tangent(t[0], c, whole_extreme_grad, {}, false);
                            })
                            .node("MaxBackward1")
                            .batch(batch::over_sample<"amax">)
                            .out_dtype(OutDType::Converts)
                            .zero_text(kLost);

// Before `max.dim`: a tensor of one integer could be read as an axis.
static const Op& max_other_ =
    def("max.other(input, other)", "`maximum(input, other)`.")
        .forward([](Call& c) -> Value { return op<"maximum">(c[0], c[1]); })
        .out_dtype(OutDType::Converts);

static const Op& max_dim_ =
    def("max.dim(input, dim: int, keepdim: bool = False)",
        "The largest elements along an axis and where they stand: the first of equals.")
        .forward([](Call& c) { return extreme_along(c, true, "max"); })
        .vjp(output(1), extreme_along_vjp)
        .jvp(taken_tangent)
        .results({"values", "indices"})
        .batch(batch::along)
        .depends(Depends::Along)
        .zero_text(kLost);

static const Op& min_ = def("min(input)", "The smallest element; NaN if there is one.")
                            .forward([](Call& c) -> Value {
                              return extreme_values(false, c.tensor(0), {}, false, "min");
                            })
                            .grad(0, input(0) | output(), whole_extreme_grad)
                            .jvp([](C c, const Tensor* t) -> Value {
                              return reduce_tangent(t[0], c, whole_extreme_grad, {}, false);
                            })
                            .node("MinBackward1")
                            .batch(batch::over_sample<"amin">)
                            .out_dtype(OutDType::Converts)
                            .zero_text(kLost);

static const Op& min_other_ =
    def("min.other(input, other)", "`minimum(input, other)`.")
        .forward([](Call& c) -> Value { return op<"minimum">(c[0], c[1]); })
        .out_dtype(OutDType::Converts);

static const Op& min_dim_ =
    def("min.dim(input, dim: int, keepdim: bool = False)",
        "The smallest elements along an axis and where they stand: the first of equals.")
        .forward([](Call& c) { return extreme_along(c, false, "min"); })
        .vjp(output(1), extreme_along_vjp)
        .jvp(taken_tangent)
        .results({"values", "indices"})
        .batch(batch::along)
        .depends(Depends::Along)
        .zero_text(kLost);

static const Op& amax_ =
    def("amax(input, dim: int[]? = [], keepdim: bool = False)",
        "The largest elements over axes; equals share the gradient.")
        .forward([](Call& c) -> Value {
          return extreme_values(true, c.tensor(0), c[1], c.flag(2), "amax");
        })
        .grad(0, input(0) | output(), axes_extreme_grad)
        .jvp([](C c, const Tensor* t) -> Value {
          return reduce_tangent(t[0], c, axes_extreme_grad, c.in(1), c.in(2).boolean());
        })
        .batch(batch::along)
        .depends(Depends::Along)
        .zero_text(kLost);

static const Op& amin_ =
    def("amin(input, dim: int[]? = [], keepdim: bool = False)",
        "The smallest elements over axes; equals share the gradient.")
        .forward([](Call& c) -> Value {
          return extreme_values(false, c.tensor(0), c[1], c.flag(2), "amin");
        })
        .grad(0, input(0) | output(), axes_extreme_grad)
        .jvp([](C c, const Tensor* t) -> Value {
          return reduce_tangent(t[0], c, axes_extreme_grad, c.in(1), c.in(2).boolean());
        })
        .batch(batch::along)
        .depends(Depends::Along)
        .zero_text(kLost);

static const Op& aminmax_ =
    def("aminmax(input, *, dim: int? = None, keepdim: bool = False)",
        "The smallest and the largest elements, over one axis or all.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          return Tensors{extreme_values(false, t, c[1], c.flag(2), "aminmax"),
                         extreme_values(true, t, c[1], c.flag(2), "aminmax")};
        })
        .vjp(input(0) | output(0) | output(1),
             [](C c, Tensor* grads) {
               Value dims = c.in(1).is_none() ? Value() : Value(Dims{c.in(1).integer()});
               bool keepdim = c.in(2).boolean();
               for (int k = 0; k < 2; ++k) {
                 if (!c.has_grad(k)) continue;
                 Tensor part = shared(c.grad(k), c.tensor(0), c.out(k), dims, keepdim);
                 grads[0] = grads[0] ? grads[0] + part : part;
               }
             })
        .jvp([](C c, const Tensor* t) -> Value {
          Value dims = c.in(1).is_none() ? Value() : Value(Dims{c.in(1).integer()});
          bool keepdim = c.in(2).boolean();
          Tensors out;
          for (int k = 0; k < 2; ++k) {
            Tensor one = op<"_ones_like">(c.out(k));
            Tensor weight = shared(one, c.tensor(0), c.out(k), dims, keepdim);
            out.push_back(op<"sum">(weight * t[0], dims, keepdim));
          }
          return out;
        })
        .results({"min", "max"})
        .batch(one_or_all)
        .depends(Depends::Along);

static const Op& argmax_ =
    def("argmax(input, dim: int? = None, keepdim: bool = False)",
        "Where the largest element stands: the first of equals, the first NaN if there is one.")
        .forward([](Call& c) { return arg_extreme(c, true, "argmax"); })
        .batch(one_or_all);

static const Op& argmin_ =
    def("argmin(input, dim: int? = None, keepdim: bool = False)",
        "Where the smallest element stands: the first of equals, the first NaN if there is one.")
        .forward([](Call& c) { return arg_extreme(c, false, "argmin"); })
        .batch(one_or_all);

static const Op& all_ = def("all(input)", "Whether no element is zero.")
                            .forward([](Call& c) { return truth(c, true, {}, false); })
                            .batch(batch::over_sample<"all.dim">)
                            .out_dtype(OutDType::ExactOrByte)
                            .any_dtype();
static const Op& all_dim_ = def("all.dim(input, dim: int[]? = None, keepdim: bool = False)",
                                "Whether no element along the axes is zero.")
                                .forward([](Call& c) { return truth(c, true, c[1], c.flag(2)); })
                                .batch(batch::along)
                                .out_dtype(OutDType::ExactOrByte)
                                .any_dtype();
static const Op& any_ = def("any(input)", "Whether an element is not zero.")
                            .forward([](Call& c) { return truth(c, false, {}, false); })
                            .batch(batch::over_sample<"any.dim">)
                            .out_dtype(OutDType::ExactOrByte)
                            .any_dtype();
static const Op& any_dim_ = def("any.dim(input, dim: int[]? = None, keepdim: bool = False)",
                                "Whether an element along the axes is not zero.")
                                .forward([](Call& c) { return truth(c, false, c[1], c.flag(2)); })
                                .batch(batch::along)
                                .out_dtype(OutDType::ExactOrByte)
                                .any_dtype();

static const Op& count_nonzero_ =
    def("count_nonzero(input, dim: int[]? = None)", "How many elements are not zero.")
        .forward([](Call& c) -> Value {
          Tensor t = cast(c.tensor(0), DType::Bool);
          return reduce_tensor({reduce::Sum, DType::Int64, DType::Int64}, t,
                               axes_mask(c[1], t.ndim()), false);
        })
        .no_out()
        .batch(batch::along)
        .any_dtype();

}  // namespace adjoint
