// Variances, norms and renorm, logsumexp, and sums that leave NaN out.
#include "ops/reduce/reduce_forward.h"
#include "ops/reduce/reduce_tangent.h"
#include "ops/sparse/rules.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

const double kInfinity = __builtin_inf();

// --- variance ------------------------------------------------------------------------------------
double correction_of(const Value& v) { return v.is_none() ? 1.0 : v.real(); }

// The variance in the dtype it is computed in: the mean first, then the squares around it. What the
// mean was rounded by is added to it: equal elements have the variance 0, to the last bit.
Tensor variance(T t, uint64_t mask, double correction, bool keepdim) {
  DType d = compute_dtype(t.dtype());
  Reduction mean{reduce::Sum, d, d};
  mean.mean = mean.memory_order = true;
  Tensor centre = reduce_tensor(mean, t, mask, keepdim);
  Reduction rest{reduce::SumCentred, d, d};
  rest.mean = rest.memory_order = true;
  rest.centre = centre->data;
  // Nothing where the sum overflowed.
  centre = centre + op<"nan_to_num">(reduce_tensor(rest, t, mask, keepdim), 0.0, 0.0, 0.0);
  Reduction squares{reduce::SumCentredSquare, d, d};
  squares.centre = centre->data;
  double freedom = static_cast<double>(reduced_count(t.shape(), mask)) - correction;
  if (freedom > 0) squares.divisor = freedom;
  Tensor out = reduce_tensor(squares, t, mask, keepdim);
  return freedom > 0 ? out : op<"div">(out, 0.0).tensor();  // NaN or infinite, as in PyTorch
}

Tensor variance_forward(T t, const Value& dims, const Value& correction, bool keepdim, bool root) {
  if (is_integral(t.dtype()))
    runtime_error("std and var only support floating point and complex dtypes, got ", t.dtype());
  uint64_t mask = axes_mask(dims, t.ndim());
  GradMode off(false);
  Tensor v;
  if (is_complex(t.dtype())) {
    v = variance(op<"real">(t), mask, correction_of(correction), keepdim) +
        variance(op<"imag">(t), mask, correction_of(correction), keepdim);
  } else {
    v = variance(t, mask, correction_of(correction), keepdim);
  }
  if (root) v = op<"sqrt">(v);
  return cast(v, real_dtype(t.dtype()));
}

// d var / d x = 2 (x - mean) / (n - correction).
Tensor variance_grad(T g, T x, const Value& dims, const Value& correction, bool keepdim) {
  double n = static_cast<double>(reduced_count(x.shape(), axes_mask(dims, x.ndim())));
  Tensor centred = x - op<"mean">(x, dims, true).tensor();
  double freedom = n - correction_of(correction);
  Tensor scaled = g * (freedom >= 0 ? 2.0 / freedom : __builtin_nan(""));
  return spread(scaled, x.shape(), dims, keepdim) * centred;
}

Tensor var_grad(T g, C c) {
  return variance_grad(g, c.tensor(0), c.in(1), c.in(2), c.in(3).boolean());
}

Tensor zero_where(T mask, T value) { return op<"where">(mask, 0.0, value); }

Tensor std_grad(T g, C c) {
  Tensor out = c.out();
  // At zero the root has no derivative; PyTorch's choice is zero.
  Tensor of_variance = zero_where(op<"eq">(out, 0), g / (out * 2.0));
  return variance_grad(of_variance, c.tensor(0), c.in(1), c.in(2), c.in(3).boolean());
}

Value unbiased(const Value& flag) { return Value(flag.boolean() ? 1 : 0); }

// --- norms ---------------------------------------------------------------------------------------
Tensor norm_forward(Tensor t, double p, const Value& dims, bool keepdim, const Value& dtype) {
  if (is_integral(t.dtype())) {
    runtime_error("linalg.vector_norm: Expected a floating point or complex tensor as input. Got ",
                  t.dtype());
  }
  if (!dtype.is_none()) {
    DType d = dtype.dtype();
    if (is_integral(d) || is_complex(d) != is_complex(t.dtype())) {
      runtime_error(
          "linalg.vector_norm: dtype should be floating point for real inputs, complex for "
          "complex inputs, but got ",
          d);
    }
    t = cast(t, d);
  }
  GradMode off(false);
  DType result = real_dtype(t.dtype()), d = compute_dtype(result);
  uint64_t mask = axes_mask(dims, t.ndim());
  if ((p < 0 || p == kInfinity) && reduced_count(t.shape(), mask) == 0) {
    runtime_error("linalg.vector_norm cannot compute the ", p,
                  " norm on an empty tensor because the operation does not have an identity");
  }
  Tensor x = is_complex(t.dtype()) ? op<"abs">(t).tensor() : t;
  auto reduced = [&](reduce::Kind k, T of) { return reduce_tensor({k, d, d}, of, mask, keepdim); };
  Tensor out;
  if (p == 0)
    out = reduced(reduce::Sum, op<"ne">(x, 0));
  else if (p == 1)
    out = reduced(reduce::SumAbs, x);
  else if (p == 2)
    out = op<"sqrt">(reduced(reduce::SumSquare, x));
  else if (p == kInfinity)
    out = reduced(reduce::Max, op<"abs">(x));
  else if (p == -kInfinity)
    out = reduced(reduce::Min, op<"abs">(x));
  else
    out = op<"pow">(reduced(reduce::Sum, op<"pow">(op<"abs">(cast(x, d)), p)), 1.0 / p);
  return cast(out, result);
}

// PyTorch's subgradients: zero at zero; equal shares where a maximum is reached more than once.
Tensor norm_grad(T given, C c) {
  Tensor x = c.tensor(0);
  double p = c.in(1).real();
  bool keepdim = c.in(3).boolean();
  Value dims = c.in(2);
  auto wide = [&](T t) { return spread(t, x.shape(), dims, keepdim); };
  if (p == 0) return op<"mul">(x, 0.0);
  if (p == 1) return op<"sgn">(x).tensor() * wide(given);
  Tensor norm = c.out(), none = op<"eq">(norm, 0);
  // Divided by something else than zero, for the derivative of the quotient.
  Tensor divisor = op<"where">(none, 1.0, norm);
  if (p == 2) return x * wide(zero_where(none, given / divisor));
  if (p == kInfinity || p == -kInfinity) {
    Tensor size = op<"abs">(x), top = wide(norm);
    Tensor mask = op<"logical_or">(op<"eq">(size, top), op<"isnan">(size));
    mask = op<"_to_copy">(mask, given.dtype());
    Tensor count = op<"sum">(mask, dims, keepdim);
    return op<"sgn">(x).tensor() * mask * wide(given / count);
  }
  // Powers of parts of the norm: those of elements, and of the norm, overflow in second derivatives.
  Tensor part = op<"abs">(x).tensor() / wide(divisor), by = wide(zero_where(none, given));
  if (p < 1) {
    Tensor power = zero_where(op<"eq">(part, 0), op<"pow">(part, p - 1.0).tensor());
    return op<"sgn">(x).tensor() * power * by;
  }
  if (p < 2) return op<"sgn">(x).tensor() * op<"pow">(part, p - 1.0).tensor() * by;
  return x / wide(divisor) * op<"pow">(part, p - 2.0).tensor() * by;
}

// --- logsumexp -----------------------------------------------------------------------------------
Value logsumexp_forward(Call& c) {
  Tensor t = c.tensor(0);
  if (is_integral(t.dtype())) t = cast(t, default_dtype());
  GradMode off(false);
  if (t.numel() == 0) return op<"log">(op<"sum">(op<"exp">(t), c[1], c[2]));
  // The largest element is taken out first; an infinite one would leave inf - inf.
  Tensor size = is_complex(t.dtype()) ? op<"real">(t).tensor() : t;
  Tensor top = op<"amax">(size, c[1].is_none() ? Value(Dims{}) : c[1], true);
  top = zero_where(op<"isinf">(top), top);
  Tensor rest = op<"log">(op<"sum">(op<"exp">(t - top), c[1], c[2]));
  if (!c.flag(2)) top = op<"reshape">(top, rest.shape());
  return rest + top;
}

Tensor logsumexp_grad(T g, C c) {
  Tensor x = c.tensor(0), out = c.out();
  bool keepdim = c.in(2).boolean();
  Tensor weight = op<"exp">(x - spread(out, x.shape(), c.in(1), keepdim));
  return spread(g, x.shape(), c.in(1), keepdim) * op<"conj">(weight).tensor();
}

}  // namespace

static const Op& var_ =
    def("var(input, dim: int[]? = None, *, correction: Scalar? = None, keepdim: bool = False)",
        "The variance: squares around the mean, divided by their number less `correction` (1).")
        .forward([](Call& c) -> Value {
          return variance_forward(c.tensor(0), c[1], c[2], c.flag(3), false);
        })
        .grad(0, input(0), var_grad)
        .jvp([](C c, const Tensor* t) -> Value {
          return reduce_tangent(t[0], c, var_grad, c.in(1), c.in(3).boolean());
        })
        .batch(batch::along)
        .depends(Depends::Along)
        .out_dtype(OutDType::Converts);
static const Op& var_dim_ =
    def("var.dim(input, dim: int[]?, unbiased: bool, keepdim: bool = False)",
        "The variance; `unbiased` divides by one less than the number of elements.")
        .forward([](Call& c) -> Value { return op<"var">(c[0], c[1], unbiased(c[2]), c[3]); })
        .out_dtype(OutDType::Converts);
static const Op& var_all_ =
    def("var.all(input, unbiased: bool)", "The variance of all elements.")
        .forward([](Call& c) -> Value { return op<"var">(c[0], nullptr, unbiased(c[1])); })
        .out_dtype(OutDType::Converts);

static const Op& std_ =
    def("std(input, dim: int[]? = None, *, correction: Scalar? = None, keepdim: bool = False)",
        "The standard deviation: the root of var().")
        .forward([](Call& c) -> Value {
          return variance_forward(c.tensor(0), c[1], c[2], c.flag(3), true);
        })
        .grad(0, input(0) | output(), std_grad)
        .jvp([](C c, const Tensor* t) -> Value {
          return reduce_tangent(t[0], c, std_grad, c.in(1), c.in(3).boolean());
        })
        .batch(batch::along)
        .depends(Depends::Along)
        .out_dtype(OutDType::Converts);
static const Op& std_dim_ =
    def("std.dim(input, dim: int[]?, unbiased: bool, keepdim: bool = False)",
        "The standard deviation; `unbiased` divides by one less than the number of elements.")
        .forward([](Call& c) -> Value { return op<"std">(c[0], c[1], unbiased(c[2]), c[3]); })
        .out_dtype(OutDType::Converts);
static const Op& std_all_ =
    def("std.all(input, unbiased: bool)", "The standard deviation of all elements.")
        .forward([](Call& c) -> Value { return op<"std">(c[0], nullptr, unbiased(c[1])); })
        .out_dtype(OutDType::Converts);

namespace {

Value with_mean(const Value& spread_of, Call& c, const Value& dims, const Value& keepdim) {
  return Tensors{spread_of.tensor(), op<"mean">(c[0], dims, keepdim).tensor()};
}

}  // namespace

static const Op& var_mean_ =
    def("var_mean(input, dim: int[]? = None, *, correction: Scalar? = None, keepdim: bool = False)",
        "The variance and the mean.")
        .forward(
            [](Call& c) { return with_mean(op<"var">(c[0], c[1], c[2], c[3]), c, c[1], c[3]); })
        .function_only()
        .no_out();
static const Op& var_mean_dim_ =
    def("var_mean.dim(input, dim: int[]?, unbiased: bool, keepdim: bool = False)",
        "The variance and the mean.")
        .forward([](Call& c) {
          return with_mean(op<"var">(c[0], c[1], unbiased(c[2]), c[3]), c, c[1], c[3]);
        })
        .function_only()
        .no_out();
static const Op& var_mean_all_ =
    def("var_mean.all(input, unbiased: bool)", "The variance and the mean of all elements.")
        .forward([](Call& c) {
          return with_mean(op<"var">(c[0], nullptr, unbiased(c[1])), c, {}, false);
        })
        .function_only()
        .no_out();
static const Op& std_mean_ =
    def("std_mean(input, dim: int[]? = None, *, correction: Scalar? = None, keepdim: bool = False)",
        "The standard deviation and the mean.")
        .forward(
            [](Call& c) { return with_mean(op<"std">(c[0], c[1], c[2], c[3]), c, c[1], c[3]); })
        .function_only()
        .no_out();
static const Op& std_mean_dim_ =
    def("std_mean.dim(input, dim: int[]?, unbiased: bool, keepdim: bool = False)",
        "The standard deviation and the mean.")
        .forward([](Call& c) {
          return with_mean(op<"std">(c[0], c[1], unbiased(c[2]), c[3]), c, c[1], c[3]);
        })
        .function_only()
        .no_out();
static const Op& std_mean_all_ =
    def("std_mean.all(input, unbiased: bool)",
        "The standard deviation and the mean of all elements.")
        .forward([](Call& c) {
          return with_mean(op<"std">(c[0], nullptr, unbiased(c[1])), c, {}, false);
        })
        .function_only()
        .no_out();

static const Op& vector_norm_ =
    def("linalg_vector_norm(input|x, ord: Scalar = 2, dim: int[]? = None, keepdim: bool = False, "
        "*, dtype: dtype? = None)",
        "The ord-norm of the elements over axes, or over all: ord may be any number, inf or -inf.")
        .forward([](Call& c) -> Value {
          return norm_forward(c.tensor(0), c.real(1), c[2], c.flag(3), c[4]);
        })
        .grad(0, input(0) | output(), norm_grad)
        .jvp([](C c, const Tensor* t) -> Value {
          return reduce_tangent(t[0], c, norm_grad, c.in(2), c.in(3).boolean());
        })
        .function_only()
        .batch(batch::along)
        .depends(Depends::Along)
        .sparse(sparse::norm);

static const Op& norm_ =
    def("norm(input, p: Scalar? = 2, dim: int[]? = None, keepdim: bool = False, dtype: dtype? = "
        "None)",
        "The p-norm of the elements, over the given axes or all; p may be inf, -inf, 0 or 'fro'.")
        .forward([](Call& c) -> Value {
          Value p = c[1].is_none() ? Value(2.0) : c[1];
          return op<"linalg_vector_norm">(c[0], p, c[2], c[3], c[4]);
        })
        .sparse(sparse::norm);
static const Op& norm_named_ =
    def("norm.named(input, p: str, dim: int[]? = None, keepdim: bool = False, dtype: dtype? = "
        "None)",
        "The Frobenius norm, or the nuclear norm (p='nuc').")
        .forward([](Call& c) -> Value {
          if (c[1].str() == "nuc") {
            Dims both{0, 1};
            if (c[2].is_none() && c.tensor(0).ndim() != 2) {
              both = Dims();
              for (int d = 0; d < c.tensor(0).ndim(); ++d) both.push_back(d);
            }
            return op<"linalg_matrix_norm.named">(c[0], "nuc", c[2].is_none() ? Value(both) : c[2],
                                                  c[3], c[4]);
          }
          if (c[1].str() != "fro")
            runtime_error("linalg.matrix_norm: Order ", c[1].str(), " not supported.");
          return op<"linalg_vector_norm">(c[0], 2.0, c[2], c[3], c[4]);
        });

static const Op& dist_ = def("dist(input, other, p: Scalar = 2)", "The p-norm of `input - other`.")
                             .forward([](Call& c) -> Value {
                               return op<"linalg_vector_norm">(op<"sub">(c[0], c[1]), c[2]);
                             })
                             .no_out();

static const Op& logsumexp_ =
    def("logsumexp(input, dim: int[], keepdim: bool = False)",
        "log(sum(exp(input))) over axes, without overflow.")
        .forward(logsumexp_forward)
        .grad(0, input(0) | output(), logsumexp_grad)
        .jvp([](C c, const Tensor* t) -> Value {
          return reduce_tangent(t[0], c, logsumexp_grad, c.in(1), c.in(2).boolean());
        })
        .batch(batch::along)
        .depends(Depends::Along)
        .out_dtype(OutDType::Converts)
        .any_dtype();

static const Op& nansum_ =
    def("nansum(input, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None)",
        "The sum over axes in which NaN counts as zero.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (is_complex(t.dtype())) runtime_error("nansum on CPU does not support complex inputs");
          if (is_integral(t.dtype())) return op<"sum">(c[0], c[1], c[2], c[3]);
          DType result = c[3].is_none() ? t.dtype() : c[3].dtype();
          if (!is_floating(result))
            return op<"sum">(op<"nan_to_num">(t, 0.0, kInfinity, -kInfinity), c[1], c[2], c[3]);
          return reduce_tensor({reduce::NanSum, compute_dtype(result), result}, t,
                               axes_mask(c[1], t.ndim()), c.flag(2));
        })
        .grad(0, input(0),
              [](T g, C c) -> Tensor {
                Tensor x = c.tensor(0);
                return op<"where">(op<"isnan">(x), 0.0,
                                   spread(g, x.shape(), c.in(1), c.in(2).boolean()));
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor counted = op<"where">(op<"isnan">(c.in(0)), 0.0, t[0]);
          return op<"sum">(counted, c.in(1), c.in(2), c.in(3));
        })
        .batch(batch::along)
        .depends(Depends::Along)
        .out_dtype(OutDType::Decides)
        .any_dtype();

static const Op& nanmean_ =
    def("nanmean(input, dim: int[]? = None, keepdim: bool = False, *, dtype: dtype? = None)",
        "The mean over axes of the elements that are not NaN.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (is_integral(t.dtype())) {
            runtime_error(
                "nanmean(): expected input to have floating point or complex dtype but got ",
                t.dtype());
          }
          Tensor count = op<"sum">(op<"logical_not">(op<"isnan">(t)), c[1], c[2]);
          return op<"nansum">(t, c[1], c[2], c[3]).tensor() / count;
        })
        .out_dtype(OutDType::Converts);

static const Op& renorm_ =
    def("renorm(input, p: Scalar, dim: int, maxnorm: Scalar)",
        "Every slice along `dim` whose p-norm exceeds maxnorm, scaled down to it.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() < 2) {
            runtime_error("renorm: input needs at least 2 dimensions, got ", t.ndim(),
                          " dimensions");
          }
          if (!(c.real(1) > 0))
            runtime_error("renorm: non-positive-norm not supported, got p=", c.real(1));
          if (!(c.real(3) >= 0))
            runtime_error("renorm: expected maxnorm to be >= 0 but got ", c.real(3));
          int axis = wrap_dim(c.integer(2), t.ndim());
          Dims rest;
          for (int d = 0; d < t.ndim(); ++d) {
            if (d != axis) rest.push_back(d);
          }
          Tensor norm = op<"linalg_vector_norm">(t, c[1], rest, true);
          Tensor factor = op<"reciprocal">(norm + 1e-7).tensor() * c[3];
          return t * op<"where">(op<"gt">(norm, c[3]), factor, 1.0).tensor();
        })
        .batch(batch::each_sample);

}  // namespace adjoint
