// Running sums, products (vander: powers), maxima along an axis; and the product over axes, whose
// derivative is made of running products. The loops are in kernels/reduce/scan.h.
#include "kernels/reduce/scan.h"

#include "dispatch/program_recorder.h"
#include "ops/reduce/reduce_forward.h"
#include "ops/reduce/reduce_tangent.h"
#include "ops/shape/along_axis.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

Tensor scanned(scan::Kind kind, Tensor t, int64_t dim, DType result) {
  int axis = wrap_dim(dim, t.ndim());
  DType d = is_integral(result) ? DType::Int64 : compute_dtype(result);
  // Narrow integers wrap around at every step, which is what the low bits of int64 do.
  t = contiguous(cast(t, is_integral(result) ? result : d));
  t = cast(t, d);
  Tensor out = empty(t.shape(), d);
  scan::Shape s = around(t.shape(), axis);
  {
    WithoutGil release(t.numel() >= kReleaseGil);
    scan::run(kind, d, t.bytes(), out.bytes(), s);
  }
  return cast(out, result);
}

DType scan_dtype(T t, const Value& dtype) {
  return !dtype.is_none() ? dtype.dtype() : is_integral(t.dtype()) ? DType::Int64 : t.dtype();
}

// cumsum_ and cumprod_ cannot compute in another dtype than the one they write.
void check_inplace_dtype(const Call& c) {
  if (!c.out || c[2].is_none() || c[2].dtype() == c.out.dtype()) return;
  runtime_error("Bad in-place call: input tensor dtype ", c.out.dtype(),
                " and output tensor dtype ", c[2].dtype(),
                " should match; fix: leave dtype out of ", c.op.name, "_()");
}

Tensor reversed_cumsum(T g, const Value& dim) { return op<"_cumsum_from_end">(g, dim); }

bool has_zero(T x) {
  refuse_recording("the second derivative of a product looks for zeros");
  GradMode off(false);
  return !op<"all">(x).tensor().data<bool>()[0];
}

// Products of all elements before (or after) each one along an axis.
Tensor product_before(T x, int axis, bool after) {
  Dims axes{axis};
  Tensor way = after ? op<"flip">(x, axes).tensor() : x;
  Dims first(x.shape());
  first[axis] = 1;
  Tensor one = op<"add">(zeros(first, x.dtype()), 1);
  Tensor shifted = op<"cat">(Tensors{one, op<"slice">(way, axis, 0, x.size(axis) - 1)}, axis);
  Tensor product = op<"cumprod">(shifted, axis);
  return after ? op<"flip">(product, axes).tensor() : product;
}

// Where a program is recorded, an op of its own looks for zeros anew in each run.
bool as_op() { return recorded() && !grad_enabled(); }

// d prod / d x_k = the product of the others. Without zeros a division does it.
Tensor product_grad(T g, T x, T out, int axis, bool keepdim) {
  if (x.numel() == 0) return zeros(x.shape(), g.dtype());
  if (as_op()) return op<"_prod_grad">(g, x, out, axis, keepdim);
  Dims dims{axis};
  if (!has_zero(x)) {
    return spread(g * op<"conj_physical">(out).tensor(), x.shape(), dims, keepdim) /
           op<"conj_physical">(x).tensor();
  }
  Tensor others = product_before(x, axis, false) * product_before(x, axis, true);
  return spread(g, x.shape(), dims, keepdim) * op<"conj_physical">(others).tensor();
}

// d cumprod_i / d x_k = the product of x_j, j <= i, j != k. Where x has zeros, each k on its own.
Tensor cumprod_grad_of(T g, T x, T out, int axis) {
  if (as_op()) return op<"_cumprod_grad">(g, x, out, axis);
  if (!has_zero(x)) {
    return reversed_cumsum(g * op<"conj_physical">(out).tensor(), axis) /
           op<"conj_physical">(x).tensor();
  }
  Tensor before = product_before(x, axis, false);
  int64_t n = x.size(axis);
  Tensors grads;
  for (int64_t k = 0; k < n; ++k) {
    Tensor one = op<"_ones_like">(op<"slice">(x, axis, k, k + 1));
    Tensor later = op<"cumprod">(op<"slice">(x, axis, k + 1, n), axis);
    Tensor tail = op<"cat">(Tensors{one, later}, axis);
    Tensor weight = op<"select">(before, axis, k).tensor();
    Tensor part = op<"slice">(g, axis, k, n).tensor() * op<"conj_physical">(tail).tensor();
    grads.push_back(op<"conj_physical">(weight).tensor() * op<"sum">(part, Dims{axis}).tensor());
  }
  return op<"stack">(std::move(grads), axis);
}
Tensor cumprod_grad(T g, C c) {
  Tensor x = c.tensor(0);
  if (x.ndim() == 0 || x.numel() == 0) return g;
  return cumprod_grad_of(g, x, c.out(), wrap_dim(c.in(1).integer(), x.ndim()));
}

// d cumprod_i = cumprod_i times the sum of dx_k / x_k, k <= i. Where x has zeros, each k on its
// own.
Value cumprod_tangent(C c, const Tensor* t) {
  Tensor x = c.tensor(0), dx = t[0];
  if (x.ndim() == 0 || x.numel() == 0) return dx;
  int axis = wrap_dim(c.in(1).integer(), x.ndim());
  if (!has_zero(x)) return c.out() * op<"cumsum">(dx / x, axis).tensor();
  Tensor before = product_before(x, axis, false), sum;
  int64_t n = x.size(axis);
  for (int64_t k = 0; k < n; ++k) {
    auto at = [&](T v) -> Tensor { return op<"slice">(v, axis, k, k + 1); };
    Tensor later = op<"cumprod">(op<"slice">(x, axis, k + 1, n), axis);
    Tensor tail = op<"cat">(Tensors{op<"_ones_like">(at(x)), later}, axis);
    Dims head(x.shape());
    head[axis] = k;
    Tensor part = op<"cat">(Tensors{zeros(head, x.dtype()), at(before) * at(dx) * tail}, axis);
    sum = sum ? sum + part : part;
  }
  return sum;
}

Value running(Call& c, bool largest) {
  Tensor t = c.tensor(0);
  if (is_complex(t.dtype()))
    not_implemented("\"", c.op.name, "\" not implemented for '", t.dtype(), "'");
  int axis = wrap_dim(c.integer(1), t.ndim());
  Tensor x = contiguous(cast(t, compute_dtype(t.dtype())));
  Tensor values = empty(t.shape(), x.dtype()), index = empty(t.shape(), DType::Int64);
  scan::Shape s = around(t.shape(), axis);
  {
    WithoutGil release(t.numel() >= kReleaseGil);
    scan::running_extremum(largest, x.dtype(), x.bytes(), values.bytes(), index.data<int64_t>(), s);
  }
  return Tensors{cast(values, t.dtype()), index};
}

void running_vjp(C c, Tensor* grads) {
  Span shape = c.shape(0);
  int axis = wrap_dim(c.in(1).integer(), shape.n);
  Tensor g = c.grad(0);
  grads[0] = shape.n == 0 ? g : op<"_scatter_along">(g, c.out(1), shape[axis], axis).tensor();
}

Value running_tangent(C c, const Tensor* t) {
  if (t[0].ndim() == 0) return t[0];
  return op<"_gather_along">(t[0], c.out(1), c.in(1));
}

// log(max(part, 0)). The lowest finite number stands for log(0): infinities would leave inf - inf.
// NaN stays NaN. The inner selection keeps the derivative of log away from zero.
Tensor log_of_positive(T part) {
  double low = part.dtype() == DType::Float16   ? -65504.0
               : part.dtype() == DType::Float64 ? -__DBL_MAX__
                                                : -0x1.fep127;
  Tensor none = op<"le">(part, 0);
  return op<"where">(none, low, op<"log">(op<"where">(none, 1.0, part)));
}

// In logarithms, so that nothing overflows: positive and negative gradients apart.
Tensor logcumsumexp_grad(T g, C c) {
  Tensor x = c.tensor(0), out = c.out();
  if (x.ndim() == 0) return g;
  if (x.numel() == 0) return g;
  Dims axis{c.in(1).integer()};
  auto weighted = [&](T log) -> Tensor {
    Tensor sum = op<"flip">(op<"logcumsumexp">(op<"flip">(log - out, axis), c.in(1)), axis);
    return op<"exp">(sum + x);
  };
  if (is_complex(x.dtype()))
    return op<"conj_physical">(weighted(op<"log">(op<"conj_physical">(g))));
  auto half = [&](T part) -> Tensor { return weighted(log_of_positive(part)); };
  return half(g) - half(-g);
}

Value logcumsumexp_tangent(C c, const Tensor* t) {
  Tensor x = c.tensor(0), out = c.out();
  if (x.ndim() == 0 || x.numel() == 0) return t[0];
  auto weighted = [&](T log) -> Tensor {
    return op<"exp">(op<"logcumsumexp">(log + x, c.in(1)).tensor() - out);
  };
  if (is_complex(x.dtype())) return weighted(op<"log">(t[0]));
  auto half = [&](T part) -> Tensor { return weighted(log_of_positive(part)); };
  return half(t[0]) - half(-t[0]);
}

}  // namespace

static const Op& ones_like_ = def("_ones_like(input)", "Ones of the shape and dtype of `input`.")
                                  .forward([](Call& c) -> Value {
                                    Tensor t = c.tensor(0);
                                    GradMode off(false);
                                    return op<"add">(zeros(t.shape(), t.dtype()), 1);
                                  })
                                  .internal()
                                  .batch(batch::as_is)
                                  .fills();

static const Op& cumsum_ =
    def("cumsum(input, dim: int, *, dtype: dtype? = None)", "The running sum along an axis.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          check_inplace_dtype(c);
          return scanned(scan::Sum, t, c.integer(1), scan_dtype(t, c[2]));
        })
        .grad(0, nothing, [](T g, C c) { return reversed_cumsum(g, c.in(1)); })
        .linear()
        .inplace()
        .batch(batch::along)
        .depends(Depends::Along)
        .out_dtype(OutDType::Decides);

static const Op& cumsum_from_end_ =
    def("_cumsum_from_end(input, dim: int)", "The running sum along an axis, from its end.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          return scanned(scan::SumFromEnd, t, c.integer(1), t.dtype());
        })
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"cumsum">(g, c.in(1)); })
        .linear()
        .internal()
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& cumprod_ =
    def("cumprod(input, dim: int, *, dtype: dtype? = None)", "The running product along an axis.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          check_inplace_dtype(c);
          return scanned(scan::Prod, t, c.integer(1), scan_dtype(t, c[2]));
        })
        .grad(0, input(0) | output(), cumprod_grad)
        .jvp(cumprod_tangent)
        .inplace()
        .batch(batch::along)
        .depends(Depends::Along)
        .out_dtype(OutDType::Decides);

static const Op& logcumsumexp_ =
    def("logcumsumexp(input, dim: int)", "log(cumsum(exp(input))) along an axis, without overflow.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (is_integral(t.dtype()))
            not_implemented("\"logcumsumexp\" not implemented for '", t.dtype(), "'");
          return scanned(scan::LogSumExp, t, c.integer(1), t.dtype());
        })
        .grad(0, input(0) | output(), logcumsumexp_grad)
        .jvp(logcumsumexp_tangent)
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& cummax_ =
    def("cummax(input, dim: int)", "The largest so far along an axis, and where it stands.")
        .forward([](Call& c) { return running(c, true); })
        .vjp(output(1), running_vjp)
        .jvp(running_tangent)
        .results({"values", "indices"})
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& cummin_ =
    def("cummin(input, dim: int)", "The smallest so far along an axis, and where it stands.")
        .forward([](Call& c) { return running(c, false); })
        .vjp(output(1), running_vjp)
        .jvp(running_tangent)
        .results({"values", "indices"})
        .batch(batch::along)
        .depends(Depends::Along);

namespace {

Tensor product(Tensor t, uint64_t mask, bool keepdim, const Value& dtype) {
  DType result = scan_dtype(t, dtype);
  if (is_integral(result) && result != DType::Int64) t = cast(t, result);
  DType d = is_integral(result) ? DType::Int64 : compute_dtype(result);
  return reduce_tensor({reduce::Prod, d, result}, t, mask, keepdim);
}

Tensor whole_product_grad(T g, C c) {
  Tensor x = c.tensor(0);
  Tensor flat = op<"reshape">(x, Dims{-1});
  return op<"reshape">(product_grad(g, flat, c.out(), 0, false), x.shape());
}

Tensor axis_product_grad(T g, C c) {
  Tensor x = c.tensor(0);
  if (x.ndim() == 0) return g;
  int axis = wrap_dim(c.in(1).integer(), x.ndim());
  return product_grad(g, x, c.out(), axis, c.in(2).boolean());
}

}  // namespace

static const Op& prod_ =
    def("prod(input, *, dtype: dtype? = None)", "The product of all elements.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          return product(t, all_axes(t.ndim()), false, c[1]);
        })
        .grad(0, input(0) | output(), whole_product_grad)
        .jvp([](C c, const Tensor* t) -> Value {
          return reduce_tangent(t[0], c, whole_product_grad, {}, false);
        })
        .batch([](Call& c, const int*) -> Value {
          return op<"prod.dim">(batch::flat_sample(c.tensor(0)), 1, false, c[1]);
        })
        .out_dtype(OutDType::Decides)
        .autocast(Autocast::Float32);

static const Op& prod_dim_ =
    def("prod.dim(input, dim: int, keepdim: bool = False, *, dtype: dtype? = None)",
        "The product along an axis.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          return product(t, uint64_t{1} << wrap_dim(c.integer(1), t.ndim()), c.flag(2), c[3]);
        })
        .grad(0, input(0) | output(), axis_product_grad)
        .jvp([](C c, const Tensor* t) -> Value {
          if (t[0].ndim() == 0) return t[0];
          return reduce_tangent(t[0], c, axis_product_grad, Dims{c.in(1).integer()},
                                c.in(2).boolean());
        })
        .node("ProdBackward1")
        .batch(batch::along)
        .depends(Depends::Along)
        .out_dtype(OutDType::Decides)
        .autocast(Autocast::Float32);

static const Op& prod_grad_ =
    def("_prod_grad(g, input, output, dim: int, keepdim: bool)",
        "The gradient of prod, for programs: the way depends on zeros in the input.")
        .forward([](Call& c) -> Value {
          int axis = static_cast<int>(c.integer(3));
          return product_grad(c.tensor(0), c.tensor(1), c.tensor(2), axis, c.flag(4));
        })
        .internal()
        .batch(batch::each_sample);

static const Op& cumprod_grad_ =
    def("_cumprod_grad(g, input, output, dim: int)",
        "The gradient of cumprod, for programs: the way depends on zeros in the input.")
        .forward([](Call& c) -> Value {
          int axis = static_cast<int>(c.integer(3));
          return cumprod_grad_of(c.tensor(0), c.tensor(1), c.tensor(2), axis);
        })
        .internal()
        .batch(batch::each_sample);

static const Op& vander_ =
    def("vander(x, N: int? = None, increasing: bool = False)",
        "The powers of the elements of a vector, as columns: falling, unless `increasing`.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0);
          if (x.ndim() != 1)
            runtime_error("x must be a one-dimensional tensor, got shape ", x.shape());
          int64_t n = c[1].is_none() ? x.size(0) : c.integer(1);
          if (n < 0) runtime_error("N must be non-negative, got ", n);
          if (is_integral(x.dtype())) x = cast(x, DType::Int64);
          if (n == 0) return zeros(Dims{x.size(0), 0}, x.dtype());
          Tensor column = op<"unsqueeze">(x, 1), one = op<"_ones_like">(column);
          Tensor powers = one;
          if (n > 1) {
            Tensor rest = op<"cumprod">(op<"expand">(column, Dims{x.size(0), n - 1}), 1);
            powers = op<"cat">(Tensors{one, rest}, 1);
          }
          return c.flag(2) ? powers : op<"flip">(powers, Dims{1}).tensor();
        })
        .function_only()
        .no_out()
        .batch(batch::each_sample);

}  // namespace adjoint
