// Determinants and their logarithms. Read matrices.h and factored.h first.
//
// Note [Derivatives at singular matrices]
// A determinant is a polynomial, so it has derivatives of every order everywhere. The first is the
// matrix of cofactors: det(A) A^-T where A has an inverse, and from singular values where it has
// none. Higher ones, f(A) say, are also polynomials in t at A + t I, of degree n at most; so f(A) is
// the mean of f(A + r w I) over the n + 1 roots of unity w, and none of these matrices is singular.
// Nearly singular matrices take that way too. Rows and columns in units of 1e-8 and 1e8 make no
// matrix singular: a pivot counts as small beside the terms it is the sum of, and what takes that
// way gets rows and columns of about one first.
#include <cmath>

#include "dispatch/program_recorder.h"
#include "ops/linalg/factored.h"

namespace adjoint {
namespace {

using namespace matrices;

double epsilon(DType d) { return real_dtype(d) == DType::Float64 ? 0x1p-52 : 0x1p-23; }

double size_at(T t, int64_t i) {
  switch (t.dtype()) {
    case DType::Float32:
      return std::fabs(t.data<float>()[i]);
    case DType::Float64:
      return std::fabs(t.data<double>()[i]);
    case DType::Complex64:
      return std::abs(t.data<complex64_t>()[i]);
    default:
      return std::abs(t.data<complex128_t>()[i]);
  }
}

// Which matrices have a pivot (in their factors, columns) that is so small a part of the terms that
// elimination summed up in its place: digits cancelled, whatever the units of rows and columns are.
std::vector<bool> singular(T lu, double part) {
  const int64_t n = lu.size(-1), count = count_of(leading_of(lu));
  std::vector<bool> out(static_cast<size_t>(count));
  for (int64_t b = 0; b < count; ++b) {
    auto size = [&](int64_t i, int64_t j) { return size_at(lu, b * n * n + j * n + i); };
    bool found = false;
    for (int64_t i = 0; i < n && !found; ++i) {
      double terms = size(i, i);
      for (int64_t k = 0; k < i; ++k) terms += size(i, k) * size(k, i);
      found = size(i, i) <= part * terms;
    }
    out[static_cast<size_t>(b)] = found;
  }
  return out;
}

// Powers of two whose products with the rows and columns of m are a.
struct Units {
  Tensor rows, columns, m;
  explicit Units(T a) {
    auto largest = [](T t, int axis) -> Tensor {
      Tensor most = op<"amax">(op<"abs">(t), Dims{axis}, true);
      Tensor power = op<"exp2">(op<"floor">(op<"log2">(most)));
      return op<"where">(op<"logical_and">(op<"isfinite">(power), op<"gt">(power, 0)), power, 1.0);
    };
    {
      GradMode off(false);
      rows = largest(a, -1);
      columns = largest(a / rows, -2);
    }
    m = a / rows / columns;
  }
  // det(R) det(C) R^-1 t C^-1: cofactors of a from those of m. Each factor by itself, as products of
  // many may be beyond what numbers reach.
  Tensor of_cofactors(T t) const {
    Tensor out = t / rows / columns;
    for (int64_t i = 0; i < t.size(-1); ++i)
      out = out * op<"narrow">(rows, -2, i, 1).tensor() * op<"narrow">(columns, -1, i, 1).tensor();
    return out;
  }
};

Tensor determinant(const Lu& f) {
  const int64_t n = f.lu.size(-1);
  Tensor det = empty(f.info.shape(), f.lu.dtype());
  linalg::determinants(f.lu.dtype(), det.numel(), n, f.lu.bytes(), f.pivots.data<int>(),
                       det.bytes());
  return det;
}

// det(A) A^-T from singular values: the product of all but one stands in for each.
Tensor singular_cofactors(T a) {
  const Units units(a);
  Tensors usv = op<"linalg_svd">(units.m).tensors();
  const Tensor &u = usv[0], &s = usv[1], &vh = usv[2];
  const int64_t n = s.numel();
  Tensor others = op<"zeros_like">(s);
  for (int64_t i = 0; i < n; ++i) {
    Tensor rest =
        op<"cat">(Tensors{op<"narrow">(s, 0, 0, i), op<"narrow">(s, 0, i + 1, n - i - 1)});
    copy_into(op<"select">(others, 0, i), op<"prod">(rest));
  }
  Tensor sign = op<"linalg_det">(u).tensor() * op<"linalg_det">(vh).tensor();
  return units.of_cofactors(conjugate(mul(u * others, vh)) * sign);
}

Tensor cofactors(T a, const Lu& f) {
  GradMode off(false);
  Uncaptured unseen;
  const int64_t n = a.size(-1), count = f.info.numel();
  Tensor inverse = columns_of(f.lu), codes = op<"zeros_like">(f.info);
  {
    char* m = inverse.bytes();
    const int *pivots = f.pivots.data<int>(), *none = codes.data<int>();
    WithoutGil release(is_long(count, double(n) * double(n) * double(n)));
    linalg::invert(a.dtype(), count, n, m, pivots, none);
  }
  Tensor out = transposed(inverse * column(column(determinant(f))));
  std::vector<bool> mask = singular(f.lu, double(n) * epsilon(a.dtype()));
  if (std::find(mask.begin(), mask.end(), true) == mask.end()) return out;
  out = contiguous(out);
  Tensor flat = op<"reshape">(out, Dims{count, n, n}), from = op<"reshape">(a, Dims{count, n, n});
  for (int64_t b = 0; b < count; ++b) {
    if (!mask[static_cast<size_t>(b)]) continue;
    copy_into(op<"select">(flat, 0, b), singular_cofactors(op<"select">(from, 0, b)));
  }
  return out;
}

// --- derivatives of cofactors --------------------------------------------------------------------
Tensor sum_matrix(T t) { return op<"sum">(t, Dims{-2, -1}, true); }

// With c = d w^T, w = a^-1: dc = d (tr(w da) w^T - (w da w)^T).
Tensor regular_tangent(T a, T da) {
  Tensor w = op<"linalg_inv">(a), d = column(column(op<"linalg_det">(a)));
  Tensor trace = sum_matrix(transposed(w) * da);
  return d * transposed(trace * w - mul(w, mul(da, w)));
}
// The transpose of the same map is the map itself, conjugated: cofactors are a gradient.
Tensor regular_grad(T a, T g) { return conjugate(regular_tangent(a, conjugate(g))); }

// Note [Derivatives at singular matrices]
template <class F>
Tensor mean_over_shifts(T given, T along, F f) {
  const Units units(given);
  const Tensor &a = units.m, direction = along / units.rows / units.columns;
  const int64_t n = a.size(-1);
  const DType wide = complex_dtype(a.dtype());
  Tensor r;
  {
    GradMode off(false);
    Tensor size = op<"linalg_vector_norm">(a, 2, Dims{-2, -1}, true);
    r = op<"where">(op<"eq">(size, 0), 1.0, size / std::sqrt(double(n)));
  }
  Tensor sum;
  for (int64_t k = 0; k <= n; ++k) {
    const double angle = 2 * M_PI * (double(k) + 0.3) / double(n + 1);
    Tensor turn = op<"_to_copy">(r, wide).tensor() *
                  Value(std::complex<double>(std::cos(angle), std::sin(angle)));
    Tensor shift = turn * op<"eye">(n, wide).tensor();
    Tensor part = f(op<"_to_copy">(a, wide).tensor() + shift, op<"_to_copy">(direction, wide));
    sum = plus(sum, part);
  }
  sum = sum / double(n + 1);
  return units.of_cofactors(is_complex(a.dtype()) ? sum : op<"real">(sum).tensor());
}

template <class F>
Tensor at_any_matrix(T a, T lu, T direction, F f) {
  refuse_recording(
      "second derivatives of det() look at values; fix: leave this line out of the compiled "
      "function");
  // Products of two inverses cancel where one is large: half of the digits are left at this part.
  std::vector<bool> mask = singular(lu, std::sqrt(epsilon(a.dtype())));
  const bool any = std::find(mask.begin(), mask.end(), true) != mask.end();
  if (!any) return f(a, direction);
  Tensor where = empty(with_matrix(leading_of(a), 1, 1), DType::Bool);
  for (size_t b = 0; b < mask.size(); ++b) where.data<uint8_t>()[b] = mask[b];
  Tensor safe = op<"where">(where, op<"eye">(a.size(-1), a.dtype()), a);
  return op<"where">(where, mean_over_shifts(a, direction, f), f(safe, direction));
}

}  // namespace

static const Op& cofactors_ =
    def("_cofactors(A, LU, pivots)",
        "The gradients of determinants, det(A) A^-T, of singular matrices too; LU and pivots are "
        "the factors of A.")
        .forward([](Call& c) -> Value {
          check_pivots(c.tensor(2), c.tensor(0).size(-1));
          return cofactors(c.tensor(0), {c.tensor(1), contiguous(c.tensor(2)),
                                         empty_info(leading_of(c.tensor(0)))});
        })
        .grad(0, input(0) | input(1),
              [](T g, C c) { return at_any_matrix(c.tensor(0), c.tensor(1), g, regular_grad); })
        .jvp([](C c, const Tensor* t) -> Value {
          return at_any_matrix(c.tensor(0), c.tensor(1), t[0], regular_tangent);
        })
        .internal()
        .called("linalg.det")
        .batch([](Call& c, const int* axes) -> Value {
          for (int i = 0; i < 3; ++i) c.args[i] = batch::whole(c, axes, i);
          return apply(c.op, c.args);
        })
        .depends(Depends::Matrices);

namespace {

Tensor cofactors_of(C c) {
  const std::vector<Value>& f = c.kept().list();
  return op<"_cofactors">(c.in(0), f[0], f[1]);
}

}  // namespace

static const Op& linalg_det_ =
    def("linalg_det(A)",
        "The determinants of square matrices. Its gradients are cofactors, which singular matrices "
        "have as well.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0);
          check_square("linalg.det", a);
          check_floating("linalg.det", a);
          check_full_precision("lu_cpu", a);
          Lu f = factor_lu(a);
          c.kept = kept_factors(f);
          return determinant(f);
        })
        .grad(0, input(0),
              [](T g, C c) -> Tensor { return column(column(g)) * conjugate(cofactors_of(c)); })
        .jvp([](C c, const Tensor* t) -> Value {
          return op<"sum">(cofactors_of(c) * t[0], Dims{-2, -1});
        })
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::Matrices);

static const Op& det_ = def("det(input|A)", "The determinants of square matrices; linalg.det.")
                            .forward([](Call& c) -> Value { return op<"linalg_det">(c[0]); })
                            .no_out();

// --- logarithms ----------------------------------------------------------------------------------
namespace {

Tensors log_determinant(const char* name, Call& c) {
  Tensor a = c.tensor(0);
  check_square(name, a);
  check_floating(name, a);
  if (is_half(a.dtype()))
    runtime_error(name, ": Low precision dtypes not supported. Got ", a.dtype());
  Lu f = factor_lu(a);
  c.kept = kept_factors(f);
  Tensor sign = empty(f.info.shape(), a.dtype()),
         size = empty(f.info.shape(), real_dtype(a.dtype()));
  linalg::log_determinants(a.dtype(), sign.numel(), a.size(-1), f.lu.bytes(), f.pivots.data<int>(),
                           sign.bytes(), size.bytes());
  return {sign, size};
}

Tensor times_i(T t) { return op<"complex">(op<"zeros_like">(t), t); }

// With t = tr(A^-1 dA): the logarithm moves by Re t, and a phase s by i s Im t.
Tensor log_grad(C c, T of_sign, T of_size, T sign) {
  Tensor weight = of_size;
  if (is_complex(sign.dtype())) {
    if (of_sign) {
      Tensor turned = times_i(op<"imag">(conjugate(of_sign) * sign));
      weight = weight ? op<"_to_copy">(weight, sign.dtype()).tensor() - turned : -turned;
    } else {
      weight = op<"_to_copy">(weight, sign.dtype());
    }
  }
  if (!weight) return Tensor();
  const int64_t n = c.tensor(0).size(-1);
  Tensor scaled = op<"diag_embed">(op<"expand">(column(weight), [&] {
    Dims shape(weight.shape());
    shape.push_back(n);
    return shape;
  }()));
  return solve_factored(c.in(0), scaled, c.kept(), true, true);
}

Value log_tangent(C c, T da, T sign) {
  Tensor moved = solve_factored(c.in(0), da, c.kept(), true, false);
  Tensor trace = op<"sum">(diagonal(moved), Dims{-1});
  if (!is_complex(trace.dtype())) return Tensors{op<"zeros_like">(sign).tensor(), trace};
  return Tensors{times_i(op<"imag">(trace)) * sign, op<"real">(trace).tensor()};
}

}  // namespace

static const Op& linalg_slogdet_ =
    def("linalg_slogdet(A)",
        "Sign (or phase) and logarithm of the size of determinants: 0 and -inf for a singular "
        "matrix.")
        .forward([](Call& c) -> Value { return log_determinant("linalg.slogdet", c); })
        .vjp(input(0) | output(0),
             [](C c, Tensor* grads) {
               grads[0] = log_grad(c, c.has_grad(0) ? c.grad(0) : Tensor(),
                                   c.has_grad(1) ? c.grad(1) : Tensor(), c.out(0));
             })
        .jvp([](C c, const Tensor* t) -> Value { return log_tangent(c, t[0], c.out(0)); })
        .results({"sign", "logabsdet"})
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::Matrices);

static const Op& slogdet_ =
    def("slogdet(input|A)", "Sign and logarithm of determinants; linalg.slogdet.")
        .forward([](Call& c) -> Value { return op<"linalg_slogdet">(c[0]); })
        .results({"sign", "logabsdet"});

static const Op& logdet_ =
    def("logdet(input|A)",
        "The logarithm of determinants: -inf for a singular matrix, NaN for a negative one.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0);
          check_square("logdet", a);
          check_floating("logdet", a);
          if (is_half(a.dtype()))
            runtime_error("logdet: Low precision dtypes not supported. Got ", a.dtype());
          Tensors both = op<"linalg_slogdet">(a).tensors();
          if (is_complex(a.dtype())) return op<"log">(both[0]).tensor() + both[1];
          return op<"where">(op<"eq">(both[0], -1.0), __builtin_nan(""), both[1]);
        })
        .no_out();

}  // namespace adjoint
