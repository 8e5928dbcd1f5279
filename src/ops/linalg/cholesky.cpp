// Cholesky factors, and what is computed from them. Read matrices.h first.
#include "ops/linalg/matrices.h"

namespace adjoint {
namespace {

using namespace matrices;

std::string not_positive(int code) {
  return text(
      "The factorization could not be completed because the input is not positive-definite (the "
      "leading minor of order ",
      code, " is not positive-definite).");
}

struct Factor {
  Tensor l, info;
};

Factor factor(T a, bool upper) {
  check_square("linalg.cholesky", a);
  check_floating("linalg.cholesky", a);
  check_full_precision("cholesky_cpu", a);
  Dims leading = leading_of(a);
  const int64_t n = a.size(-1);
  Factor out{empty_columns(leading, n, n, a.dtype()), empty_info(leading)};
  Laid from = lay(a);
  char* l = out.l.bytes();
  int* info = out.info.data<int>();
  WithoutGil release(is_long(from.count, double(n) * double(n) * double(n)));
  linalg::cholesky(a.dtype(), from.count, n, upper, from.at, l, info);
  return out;
}

Tensor checked_factor(T a, bool upper, const char* name) {
  Factor f = factor(a, upper);
  check_info(name, f.info, not_positive);
  return f.l;
}

// With a = l l^H, the map from dl to l^-1 da l^-H = x + x^H, x = l^-1 dl, is undone by pi(y) = tril(y)
// with half of its diagonal: dl = l pi(l^-1 da l^-H). The gradient is its transpose, of the
// symmetric part: PyTorch's convention for an argument of which one triangle is read.
Tensor factor_grad(T g_given, T l_given, bool upper) {
  Tensor l = upper ? adjoint_of(l_given) : l_given, g = upper ? adjoint_of(g_given) : g_given;
  Tensor p = tril(mul(adjoint_of(l), g));
  p = (p + adjoint_of(tril(p, -1))) * 0.5;
  p = solve_triangular(adjoint_of(l), p, true);
  return solve_triangular(l, p, false, false);
}

Tensor factor_tangent(T da, T l_given, bool upper) {
  Tensor l = upper ? adjoint_of(l_given) : l_given;
  Tensor y = solve_triangular(l, da, false);
  y = solve_triangular(adjoint_of(l), y, true, false);
  Tensor dl = mul(l, (tril(y) + tril(y, -1)) * 0.5);
  return upper ? adjoint_of(dl) : dl;
}

}  // namespace

static const Op& linalg_cholesky_ =
    def("linalg_cholesky(input|A, *, upper: bool = False)",
        "The Cholesky factor L of positive-definite matrices, `input = L @ L.mH`; of the input "
        "the lower triangle is read. With `upper` it is U, `input = U.mH @ U`, from the upper "
        "triangle. Raises LinAlgError for a matrix that is not positive-definite.")
        .forward([](Call& c) -> Value {
          return checked_factor(c.tensor(0), c.flag(1), "linalg.cholesky");
        })
        .grad(0, output(), [](T g, C c) { return factor_grad(g, c.out(), c.in(1).boolean()); })
        .jvp([](C c, const Tensor* t) -> Value {
          return factor_tangent(t[0], c.out(), c.in(1).boolean());
        })
        .function_only()
        .node("LinalgCholeskyExBackward0")
        .batch(batch::as_is)
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32);

static const Op& linalg_cholesky_ex_ =
    def("linalg_cholesky_ex(input|A, *, upper: bool = False, check_errors: bool = False)",
        "The Cholesky factor, and an info code per matrix: 0, or the order of the leading minor "
        "that is not positive. Raises with `check_errors` only.")
        .forward([](Call& c) -> Value {
          Factor f = factor(c.tensor(0), c.flag(1));
          if (c.flag(2)) check_info("linalg.cholesky_ex", f.info, not_positive);
          return Tensors{f.l, f.info};
        })
        .vjp(output(0),
             [](C c, Tensor* grads) {
               if (c.has_grad(0)) grads[0] = factor_grad(c.grad(0), c.out(0), c.in(1).boolean());
             })
        .jvp([](C c, const Tensor* t) -> Value {
          return Tensors{factor_tangent(t[0], c.out(0), c.in(1).boolean()), Tensor()};
        })
        .results({"L", "info"})
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32);

static const Op& cholesky_ =
    def("cholesky(input, upper: bool = False)",
        "The Cholesky factor of positive-definite matrices; see linalg.cholesky.")
        .forward(
            [](Call& c) -> Value { return checked_factor(c.tensor(0), c.flag(1), "cholesky"); })
        .grad(0, output(), [](T g, C c) { return factor_grad(g, c.out(), c.in(1).boolean()); })
        .jvp([](C c, const Tensor* t) -> Value {
          return factor_tangent(t[0], c.out(), c.in(1).boolean());
        })
        .batch(batch::as_is)
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);

// --- solutions from a factor ---------------------------------------------------------------------
namespace {

Tensor triangle(T l, bool upper) { return upper ? triu(l) : tril(l); }

Tensor cholesky_solve(T b, T l, bool upper) {
  Tensor low = upper ? adjoint_of(l) : l, high = upper ? l : adjoint_of(l);
  return solve_triangular(high, solve_triangular(low, b, false), true);
}

}  // namespace

static const Op& cholesky_solve_ =
    def("cholesky_solve(input|B, input2|L, upper: bool = False)",
        "The solution of `A @ x = input` from the Cholesky factor of A, `input2`.")
        .forward([](Call& c) -> Value {
          Tensor b = c.tensor(0), l = c.tensor(1);
          if (b.ndim() < 2)
            runtime_error("b should have at least 2 dimensions, but has ", b.ndim(),
                          " dimensions instead");
          if (l.ndim() < 2)
            runtime_error("u should have at least 2 dimensions, but has ", l.ndim(),
                          " dimensions instead");
          check_full_precision("cholesky_solve_cpu", b);
          check_same_dtype("cholesky_solve", b, l, "b", "A");
          check_square("cholesky_solve", l);
          if (l.size(-1) != b.size(-2))
            runtime_error("Incompatible matrix sizes for cholesky_solve: each A matrix is ",
                          l.size(-1), " by ", l.size(-1), " but each b matrix is ", b.size(-2),
                          " by ", b.size(-1));
          return cholesky_solve(b, l, c.flag(2));
        })
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);

static const Op& cholesky_inverse_ =
    def("cholesky_inverse(input|L, upper: bool = False)",
        "The inverse of positive-definite matrices from their Cholesky factors.")
        .forward([](Call& c) -> Value {
          Tensor l = c.tensor(0);
          check_square("cholesky_inverse", l);
          check_full_precision("cholesky_inverse_out_cpu", l);
          Tensor out = columns_of(l), info = empty_info(leading_of(l));
          const int64_t n = l.size(-1), count = info.numel();
          char* a = out.bytes();
          int* codes = info.data<int>();
          {
            WithoutGil release(is_long(count, double(n) * double(n) * double(n)));
            linalg::cholesky_inverse(l.dtype(), count, n, c.flag(1), a, codes);
          }
          check_info("cholesky_inverse", info, singular_inverse);
          return out;
        })
        .grad(0, input(0) | output(),
              [](T g, C c) -> Tensor {
                const bool upper = c.in(1).boolean();
                Tensor inverse = c.out(), l = triangle(c.tensor(0), upper);
                Tensor both = mul(mul(inverse, g + adjoint_of(g)), inverse);
                return triangle(upper ? -mul(l, both) : -mul(both, l), upper);
              })
        .jvp([](C c, const Tensor* t) -> Value {
          // With a = l l^H: d(a^-1) = -a^-1 (dl l^H + l dl^H) a^-1.
          const bool upper = c.in(1).boolean();
          Tensor inverse = c.out(), l = triangle(c.tensor(0), upper), d = triangle(t[0], upper);
          Tensor half = upper ? mul(adjoint_of(d), l) : mul(d, adjoint_of(l));
          half = mul(mul(inverse, half), inverse);
          return -(half + adjoint_of(half));
        })
        .batch(batch::as_is)
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);

}  // namespace adjoint
