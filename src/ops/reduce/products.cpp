// Products over axes and along them (vander: powers). Their derivatives are made of running products,
// and look for zeros first. Read scan.h before.
#include "dispatch/program_recorder.h"
#include "ops/reduce/reduce_forward.h"
#include "ops/reduce/reduce_tangent.h"
#include "ops/reduce/scan.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

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
bool as_op() { return captured() && !grad_enabled(); }

// d prod / d x_k = the product of the others. Without zeros a division does it.
Tensor product_grad(T g, T x, T out, int axis, bool keepdim) {
  if (x.numel() == 0) return zeros(x.shape(), g.dtype());
  if (as_op()) return op<"_prod_grad">(g, x, out, axis, keepdim);
  Dims dims{axis};
  if (!has_zero(x)) {
    return spread(g * op<"conj">(out).tensor(), x.shape(), dims, keepdim) / op<"conj">(x).tensor();
  }
  Tensor others = product_before(x, axis, false) * product_before(x, axis, true);
  return spread(g, x.shape(), dims, keepdim) * op<"conj">(others).tensor();
}

// d cumprod_i / d x_k = the product of x_j, j <= i, j != k. Where x has zeros, each k on its own.
Tensor cumprod_grad_of(T g, T x, T out, int axis) {
  if (as_op()) return op<"_cumprod_grad">(g, x, out, axis);
  if (!has_zero(x)) {
    return reversed_cumsum(g * op<"conj">(out).tensor(), axis) / op<"conj">(x).tensor();
  }
  Tensor before = product_before(x, axis, false);
  int64_t n = x.size(axis);
  Tensors grads;
  for (int64_t k = 0; k < n; ++k) {
    Tensor one = op<"_ones_like">(op<"slice">(x, axis, k, k + 1));
    Tensor later = op<"cumprod">(op<"slice">(x, axis, k + 1, n), axis);
    Tensor tail = op<"cat">(Tensors{one, later}, axis);
    Tensor weight = op<"select">(before, axis, k).tensor();
    Tensor part = op<"slice">(g, axis, k, n).tensor() * op<"conj">(tail).tensor();
    grads.push_back(op<"conj">(weight).tensor() * op<"sum">(part, Dims{axis}).tensor());
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

}  // namespace

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
        .out_dtype(OutDType::Decides)
        .any_dtype();

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
        .autocast(Autocast::Float32)
        .any_dtype();

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
        .autocast(Autocast::Float32)
        .any_dtype();

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
