// Triangular systems. Read matrices.h first.
#include "ops/linalg/matrices.h"

namespace adjoint {
namespace {

using namespace matrices;

// What is read of the matrix: one triangle, without its diagonal if that is taken for ones.
Tensor triangle(T a, bool upper, bool unit) { return upper ? triu(a, unit) : tril(a, -int(unit)); }

Tensor solve(T a, T b, linalg::Triangle how) {
  check_system("linalg.solve_triangular", a, b, how.left);
  check_same_dtype("linalg.solve_triangular", a, b);
  check_full_precision("triangular_solve_cpu", a);
  const Dims leading = broadcast_shapes({a->shape, a.ndim() - 2}, {b->shape, b.ndim() - 2});
  const int64_t m = b.size(-2), n = b.size(-1), order = a.size(-1);
  Tensor x = empty_columns(leading, m, n, b.dtype());
  Laid from = lay(a, leading), right = lay(b, leading);
  char* to = x.bytes();
  WithoutGil release(is_long(from.count, double(m) * double(n) * double(order)));
  linalg::solve_triangular(b.dtype(), from.count, m, n, how, from.at, right.at, to);
  return x;
}

}  // namespace

static const Op& solve_triangular_ =
    def("linalg_solve_triangular(input|A, B, *, upper: bool, left: bool = True, "
        "unitriangular: bool = False)",
        "The solution of `A @ X = B` (of `X @ A = B` with left=False) for triangular matrices. The "
        "other triangle is not read, nor is the diagonal with `unitriangular`: it counts as ones. "
        "A zero on the diagonal gives infinities and NaN.")
        .forward([](Call& c) -> Value {
          return solve(c.tensor(0), c.tensor(1), {c.flag(3), c.flag(2), c.flag(4)});
        })
        .vjp(input(0) | output(),
             [](C c, Tensor* grads) {
               const bool upper = c.in(2).boolean(), left = c.in(3).boolean();
               const bool unit = c.in(4).boolean();
               if (!c.needs(0) && !c.needs(1)) return;
               Tensor gb = solve_triangular(adjoint_of(c.tensor(0)), c.grad(), !upper, left, unit);
               if (c.needs(0)) {
                 Tensor x = adjoint_of(c.out());
                 grads[0] = triangle(-(left ? mul(gb, x) : mul(x, gb)), upper, unit);
               }
               if (c.needs(1)) grads[1] = gb;
             })
        .jvp([](C c, const Tensor* t) -> Value {
          const bool upper = c.in(2).boolean(), left = c.in(3).boolean();
          const bool unit = c.in(4).boolean();
          Tensor moved = t[1];
          if (t[0]) {
            Tensor da = triangle(t[0], upper, unit), x = c.out();
            moved = minus(moved, left ? mul(da, x) : mul(x, da));
          }
          return solve_triangular(c.tensor(0), moved, upper, left, unit);
        })
        .function_only()
        .batch(batch::lined_up)
        .depends(Depends::Matrices);

static const Op& triangular_solve_ =
    def("triangular_solve(input|b, A, upper: bool = True, transpose: bool = False, "
        "unitriangular: bool = False)",
        "The solution of `A @ X = b` (of `A.T @ X = b` with `transpose`) for triangular matrices, "
        "and a copy of A; see linalg.solve_triangular.")
        .forward([](Call& c) -> Value {
          Tensor b = c.tensor(0), a = c.tensor(1);
          if (b.ndim() < 2)
            runtime_error(
                "torch.triangular_solve: Expected b to have at least 2 dimensions, but "
                "it has ",
                b.ndim(), " dimensions instead");
          if (a.ndim() < 2)
            runtime_error(
                "torch.triangular_solve: Expected A to have at least 2 dimensions, but "
                "it has ",
                a.ndim(), " dimensions instead");
          check_system("triangular_solve", a, b, true);
          const bool upper = c.flag(2), turned = c.flag(3);
          Tensor whole = op<"expand">(
              a, with_matrix(broadcast_shapes({a->shape, a.ndim() - 2}, {b->shape, b.ndim() - 2}),
                             a.size(-2), a.size(-1)));
          Dims strides = contiguous_strides(whole.shape());
          std::swap(strides[whole.ndim() - 2], strides[whole.ndim() - 1]);
          Tensor copy = op<"_with_strides">(whole, strides);
          Tensor x =
              solve_triangular(turned ? transposed(a) : a, b, upper != turned, true, c.flag(4));
          return Tensors{x, copy};
        })
        .results({"solution", "cloned_coefficient"})
        .autocast(Autocast::Float32);

}  // namespace adjoint
