// Systems with banded matrices, in SciPy's form: row upper + i - j, column j holds (i, j). The
// functions that people call are in python/adjoint/linalg/_banded.py. Read matrices.h first.
//
// Note [Band derivatives]
// Three ops are closed under differentiation: a solution, a product with a band, and the band of a
// product p q^H, which is what the gradient of a matrix is. A matrix with one diagonal on each side
// is factored anew by every solution, which costs less than keeping factors (in a loop they would be
// kept for each step); others keep their factors (Note [Factors are kept] in solve.cpp).
#include "ops/linalg/matrices.h"

namespace adjoint {
namespace {

using namespace matrices;

struct Form {
  int64_t lower, upper;
  int64_t rows() const { return lower + upper + 1; }
};

void check_band(const char* name, T ab, T b, Form form) {
  check_ndim(name, ab, "ab");
  check_ndim(name, b, "b");
  check_floating(name, ab);
  check_same_dtype(name, ab, b, "ab", "b");
  check_full_precision(name, ab);
  if (form.lower < 0 || form.upper < 0)
    value_error(name, ": a matrix has no ", form.lower, " diagonals below and ", form.upper,
                " above the main one");
  if (ab.size(-2) != form.rows())
    value_error(name, ": ab must have ", form.rows(), " rows, for ", form.lower,
                " diagonals below and ", form.upper, " above the main one, but has ", ab.size(-2));
  if (ab.size(-1) != b.size(-2))
    value_error(name, ": ab is a matrix of order ", ab.size(-1), ", but b has ", b.size(-2),
                " rows");
}

Dims joint_leading(T a, T b) {
  return broadcast_shapes({a->shape, a.ndim() - 2}, {b->shape, b.ndim() - 2});
}
Form form_of(C c, int first) { return {c.in(first).integer(), c.in(first + 1).integer()}; }

struct Factored {
  Tensor factors, pivots;  // (..., n, 2 lower + upper + 1), (..., n, 1)
};

Factored factor(T ab, Form form) {
  const Dims leading = leading_of(ab);
  const int64_t n = ab.size(-1);
  Laid from = lay(ab);
  Factored out{empty(with_matrix(leading, n, 2 * form.lower + form.upper + 1), ab.dtype()),
               empty(with_matrix(leading, n, 1), DType::Int32)};
  Tensor info = empty_info(leading);
  char* to = out.factors.bytes();
  int *pivots = out.pivots.data<int>(), *codes = info.data<int>();
  WithoutGil release(is_long(from.count, double(n) * double(form.lower + 1) * double(form.rows())));
  linalg::band_factor(ab.dtype(), from.count, n, form.lower, form.upper, from.at, to, pivots,
                      codes);
  release.end();
  check_info("linalg.solve_banded", info, singular_solver);
  return out;
}

Tensor solve_by(const Factored& f, T b, Form form, bool adjoint) {
  const Dims leading = joint_leading(f.factors, b);
  const int64_t n = b.size(-2), columns = b.size(-1);
  Laid factors = lay(contiguous(f.factors), leading), pivots = lay(contiguous(f.pivots), leading);
  Laid right = lay(b, leading);
  Tensor x = empty(with_matrix(leading, n, columns), b.dtype());
  char* to = x.bytes();
  WithoutGil release(
      is_long(right.count, double(n) * double(columns) * double(form.rows() + form.lower)));
  linalg::band_solve(b.dtype(), right.count, n, columns, form.lower, form.upper, adjoint,
                     factors.at.data, factors.at.step, static_cast<const int*>(pivots.at.data),
                     pivots.at.step, right.at, to);
  return x;
}

Tensor solve_tridiagonal(T ab, T b, bool adjoint) {
  const Dims leading = joint_leading(ab, b);
  const int64_t n = b.size(-2), columns = b.size(-1);
  Laid from = lay(ab, leading), right = lay(b, leading);
  Tensor x = empty(with_matrix(leading, n, columns), b.dtype()), info = empty_info(leading);
  char* to = x.bytes();
  int* codes = info.data<int>();
  WithoutGil release(is_long(right.count, 10.0 * double(n) * double(columns)));
  linalg::tridiagonal_solve(b.dtype(), right.count, n, columns, adjoint, from.at, right.at, to,
                            codes);
  release.end();
  check_info("linalg.solve_banded", info, singular_solver);
  return x;
}

Tensor outer(T p, T q, Form form) { return op<"_band_outer">(p, q, form.lower, form.upper); }
Tensor product(T ab, T x, Form form, bool adjoint) {
  return op<"_band_product">(ab, x, form.lower, form.upper, adjoint);
}

// op(a)^-1 b again, with the factors if there are any.
Tensor solve_again(T ab, T b, const Value& kept, Form form, bool adjoint) {
  if (kept.is_none()) return op<"_band_solve">(ab, b, form.lower, form.upper, adjoint);
  const std::vector<Value>& f = kept.list();
  return op<"_band_solve_factored">(ab, b, f[0], f[1], form.lower, form.upper, adjoint);
}

void solve_vjp(C c, const Value& kept, Form form, bool adjoint, Tensor* grads) {
  if (!c.needs(0) && !c.needs(1)) return;
  Tensor gb = solve_again(c.tensor(0), c.grad(), kept, form, !adjoint);
  if (c.needs(0)) grads[0] = -(adjoint ? outer(c.out(), gb, form) : outer(gb, c.out(), form));
  if (c.needs(1)) grads[1] = gb;
}

Tensor solve_jvp(C c, const Tensor* t, const Value& kept, Form form, bool adjoint) {
  Tensor moved = t[1];
  if (t[0]) moved = minus(moved, product(t[0], c.out(), form, adjoint));
  return solve_again(c.tensor(0), moved, kept, form, adjoint);
}

}  // namespace

static const Op& band_solve_factored_ =
    def("_band_solve_factored(AB, B, factors, pivots, lower: int, upper: int, adjoint: bool)",
        "The solution of `op(A) @ X = B` for a banded A with its factors at hand; op is the "
        "adjoint or nothing.")
        .forward([](Call& c) -> Value {
          const Form form{c[4].integer(), c[5].integer()};
          return solve_by({c.tensor(2), c.tensor(3)}, c.tensor(1), form, c.flag(6));
        })
        .vjp(input(0) | input(2) | input(3) | output(),
             [](C c, Tensor* grads) {
               Value kept = std::vector<Value>{c.in(2), c.in(3)};
               solve_vjp(c, kept, form_of(c, 4), c.in(6).boolean(), grads);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          Value kept = std::vector<Value>{c.in(2), c.in(3)};
          return solve_jvp(c, t, kept, form_of(c, 4), c.in(6).boolean());
        })
        .internal()
        .called("linalg.solve_banded")
        .batch(batch::lined_up)
        .depends(Depends::Matrices);

static const Op& band_solve_ =
    def("_band_solve(AB, B, lower: int, upper: int, adjoint: bool = False)",
        "The solution of `op(A) @ X = B` for a banded A; op is the adjoint or nothing.")
        .forward([](Call& c) -> Value {
          const Form form{c[2].integer(), c[3].integer()};
          Tensor ab = c.tensor(0), b = c.tensor(1);
          check_band("linalg.solve_banded", ab, b, form);
          if (form.lower == 1 && form.upper == 1) return solve_tridiagonal(ab, b, c.flag(4));
          Factored f = factor(ab, form);
          c.kept = std::vector<Value>{f.factors, f.pivots};
          return solve_by(f, b, form, c.flag(4));
        })
        .vjp(input(0) | output(),
             [](C c, Tensor* grads) {
               solve_vjp(c, c.kept(), form_of(c, 2), c.in(4).boolean(), grads);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          return solve_jvp(c, t, c.kept(), form_of(c, 2), c.in(4).boolean());
        })
        .function_only()
        .no_out()
        .called("linalg.solve_banded")
        .batch(batch::lined_up)
        .depends(Depends::Matrices);

static const Op& band_product_ =
    def("_band_product(AB, X, lower: int, upper: int, adjoint: bool = False)",
        "`op(A) @ X` for a banded A; op is the adjoint or nothing.")
        .forward([](Call& c) -> Value {
          const Form form{c[2].integer(), c[3].integer()};
          Tensor ab = c.tensor(0), x = c.tensor(1);
          check_band("band product", ab, x, form);
          const Dims leading = joint_leading(ab, x);
          const int64_t n = x.size(-2), columns = x.size(-1);
          Laid from = lay(ab, leading), right = lay(x, leading);
          Tensor y = empty(with_matrix(leading, n, columns), x.dtype());
          char* to = y.bytes();
          WithoutGil release(
              is_long(right.count, double(n) * double(columns) * double(form.rows())));
          linalg::band_product(x.dtype(), right.count, n, columns, form.lower, form.upper,
                               c.flag(4), from.at, right.at, to);
          return y;
        })
        .vjp(input(0) | input(1),
             [](C c, Tensor* grads) {
               const Form form = form_of(c, 2);
               const bool adjoint = c.in(4).boolean();
               if (c.needs(0))
                 grads[0] = adjoint ? outer(c.tensor(1), c.grad(), form)
                                    : outer(c.grad(), c.tensor(1), form);
               if (c.needs(1)) grads[1] = product(c.tensor(0), c.grad(), form, !adjoint);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          const Form form = form_of(c, 2);
          const bool adjoint = c.in(4).boolean();
          Tensor by_matrix = t[0] ? product(t[0], c.tensor(1), form, adjoint) : Tensor();
          Tensor by_x = t[1] ? product(c.tensor(0), t[1], form, adjoint) : Tensor();
          return plus(by_matrix, by_x);
        })
        .function_only()
        .no_out()
        .batch(batch::lined_up)
        .depends(Depends::Matrices);

static const Op& band_outer_ =
    def("_band_outer(P, Q, lower: int, upper: int)",
        "The band of `P @ Q.mH`, with zeros where its form has elements outside the matrix.")
        .forward([](Call& c) -> Value {
          const Form form{c[2].integer(), c[3].integer()};
          Tensor p = c.tensor(0), q = c.tensor(1);
          const Dims leading = joint_leading(p, q);
          const int64_t n = p.size(-2), columns = p.size(-1);
          if (q.size(-2) != n || q.size(-1) != columns)
            value_error("band of a product: the shapes ", p.shape(), " and ", q.shape(),
                        " do not match");
          check_same_dtype("band of a product", p, q, "P", "Q");
          check_full_precision("band of a product", p);
          if (form.lower < 0 || form.upper < 0)
            value_error("band of a product: negative numbers of diagonals");
          Laid left = lay(p, leading), right = lay(q, leading);
          Tensor ab = empty(with_matrix(leading, form.rows(), n), p.dtype());
          char* to = ab.bytes();
          WithoutGil release(
              is_long(left.count, double(n) * double(columns) * double(form.rows())));
          linalg::band_outer(p.dtype(), left.count, n, columns, form.lower, form.upper, left.at,
                             right.at, to);
          return ab;
        })
        .vjp(input(0) | input(1),
             [](C c, Tensor* grads) {
               const Form form = form_of(c, 2);
               if (c.needs(0)) grads[0] = product(c.grad(), c.tensor(1), form, false);
               if (c.needs(1)) grads[1] = product(c.grad(), c.tensor(0), form, true);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          const Form form = form_of(c, 2);
          Tensor by_p = t[0] ? outer(t[0], c.tensor(1), form) : Tensor();
          Tensor by_q = t[1] ? outer(c.tensor(0), t[1], form) : Tensor();
          return plus(by_p, by_q);
        })
        .function_only()
        .no_out()
        .batch(batch::lined_up)
        .depends(Depends::Matrices);

}  // namespace adjoint
