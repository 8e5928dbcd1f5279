// LDL factors of symmetric and Hermitian matrices, which need not be positive-definite. Read
// matrices.h first. The factors themselves have no derivative, as in PyTorch; solutions have one by
// the right side.
#include "ops/linalg/matrices.h"

namespace adjoint {
namespace {

using namespace matrices;

Tensors factor(const char* name, T a, bool hermitian) {
  check_square(name, a);
  check_floating(name, a);
  check_full_precision("ldl_factor_kernel_cpu", a);
  const Dims leading = leading_of(a);
  const int64_t n = a.size(-1), count = count_of(leading);
  Dims shape = leading;
  shape.push_back(n);
  Tensor ld = columns_of(a), pivots = empty(shape, DType::Int32), info = empty_info(leading);
  {
    char* to = ld.bytes();
    int *rows = pivots.data<int>(), *codes = info.data<int>();
    WithoutGil release(is_long(count, double(n) * double(n) * double(n)));
    linalg::ldl_factor(a.dtype(), count, n, hermitian, to, rows, codes);
  }
  linalg::clear_triangle(a.dtype(), count, n, n, true, false, ld.bytes());
  return {ld, pivots, info};
}

std::string singular(int code) {
  return text("The factorization has been completed, but the diagonal block D(", code, ",", code,
              ") is exactly zero, so that a solution would divide by zero.");
}

[[noreturn]] void no_derivative(const char* name) {
  runtime_error("derivative for aten::", name,
                " is not implemented; fix: use linalg.solve, or cholesky for positive-definite "
                "matrices");
}

}  // namespace

static const Op& ldl_factor_ex_ =
    def("linalg_ldl_factor_ex(input|A, *, hermitian: bool = False, check_errors: bool = False)",
        "The LDL factors in one matrix, pivots and an info code per matrix. Raises with "
        "`check_errors` only.")
        .forward([](Call& c) -> Value {
          Tensors out = factor("torch.linalg.ldl_factor_ex", c.tensor(0), c.flag(1));
          if (c.flag(2)) check_info("torch.linalg.ldl_factor_ex", out[2], singular);
          return out;
        })
        .vjp(nothing, [](C, Tensor*) { no_derivative("linalg_ldl_factor_ex"); })
        .jvp([](C, const Tensor*) -> Value { no_derivative("linalg_ldl_factor_ex"); })
        .results({"LD", "pivots", "info"})
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::Matrices);

static const Op& ldl_factor_ =
    def("linalg_ldl_factor(input|A, *, hermitian: bool = False)",
        "The LDL factors of symmetric (or Hermitian) matrices in one matrix, and pivots, as "
        "LAPACK's "
        "sytrf (hetrf) gives them from the lower triangle; for linalg.ldl_solve.")
        .forward([](Call& c) -> Value {
          Tensors out = factor("torch.linalg.ldl_factor", c.tensor(0), c.flag(1));
          check_info("torch.linalg.ldl_factor", out[2], singular);
          return Tensors{out[0], out[1]};
        })
        .vjp(nothing, [](C, Tensor*) { no_derivative("linalg_ldl_factor"); })
        .jvp([](C, const Tensor*) -> Value { no_derivative("linalg_ldl_factor"); })
        .results({"LD", "pivots"})
        .function_only()
        .node("LinalgLdlFactorExBackward0")
        .batch(batch::as_is)
        .depends(Depends::Matrices);

namespace {

// LAPACK goes where pivots point.
Tensor checked_pivots(T ld, T pivots, const Dims& leading) {
  const int64_t n = ld.size(-1);
  Dims shape = leading;
  shape.push_back(n);
  GradMode off(false);
  Tensor rows = empty(shape, DType::Int32);
  copy_into(rows, op<"expand">(pivots, shape));
  const int* p = rows.data<int>();
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const int64_t at = std::abs(int64_t{p[i]});
    // A block of two has a negative pivot twice.
    const bool pair = p[i] < 0;
    const bool first = pair && i % n + 1 < n && p[i + 1] == p[i];
    if (at < 1 || at > n || (pair && !first && (i % n == 0 || p[i - 1] >= 0)))
      runtime_error("Pivots given to ldl_solve must all satisfy |pivot| >= 1 and |pivot| <= ", n,
                    ". Did you properly pass the result of ldl_factor?");
  }
  return rows;
}

}  // namespace

static const Op& ldl_solve_ =
    def("linalg_ldl_solve(LD, pivots, B, *, hermitian: bool = False)",
        "The solution of `A @ X = B` from the results of linalg.ldl_factor.")
        .forward([](Call& c) -> Value {
          Tensor ld = c.tensor(0), pivots = c.tensor(1), b = c.tensor(2);
          check_square("torch.linalg.ldl_solve", ld, "LD");
          check_floating("torch.linalg.ldl_solve", ld);
          check_system("torch.linalg.ldl_solve", ld, b, true);
          if (b.ndim() < 2)
            runtime_error(
                "torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it "
                "has ",
                b.ndim(), " dimensions instead");
          if (!(Span{ld->shape, ld.ndim() - 1} == pivots.shape()))
            runtime_error(
                "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the "
                "same, but got pivots with shape ",
                pivots.shape(), " instead");
          if (!is_integral(pivots.dtype()) || pivots.dtype() == DType::Bool)
            runtime_error("torch.linalg.ldl_solve: Expected pivots to be integers. Got ",
                          pivots.dtype());
          check_same_dtype("torch.linalg.ldl_solve", ld, b, "LD", "B");
          check_full_precision("ldl_solve_kernel_cpu", ld);
          const Dims leading =
              broadcast_shapes({ld->shape, ld.ndim() - 2}, {b->shape, b.ndim() - 2});
          const int64_t n = ld.size(-1), columns = b.size(-1), count = count_of(leading);
          Tensor factors = columns_of(ld, leading), x = columns_of(b, leading);
          Tensor rows = checked_pivots(ld, pivots, leading);
          const char* from = factors.bytes();
          const int* p = rows.data<int>();
          char* to = x.bytes();
          WithoutGil release(is_long(count, double(n) * double(n) * double(columns)));
          linalg::ldl_solve(b.dtype(), count, n, columns, c.flag(3), from, p, to);
          return x;
        })
        .vjp(input(0) | input(1),
             [](C c, Tensor* grads) {
               if (c.needs(0)) no_derivative("linalg_ldl_solve");
               if (!c.needs(2)) return;
               // The adjoint of a symmetric matrix is its conjugate.
               const bool hermitian = c.in(3).boolean() || !is_complex(c.grad().dtype());
               Tensor g = hermitian ? c.grad() : conjugate(c.grad());
               Tensor x = op<"linalg_ldl_solve">(c.in(0), c.in(1), g, c.in(3));
               grads[2] = hermitian ? x : conjugate(x);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          if (t[0]) no_derivative("linalg_ldl_solve");
          return op<"linalg_ldl_solve">(c.in(0), c.in(1), t[2], c.in(3));
        })
        .function_only()
        .batch([](Call& c, const int* axes) -> Value {
          int ndim = std::max(batch::sample_ndim(c, axes, 0), batch::sample_ndim(c, axes, 2));
          const bool both = axes[0] >= 0 || axes[1] >= 0;
          for (int i = 0; i < 3; ++i) {
            if (i < 2 ? both : axes[i] >= 0)
              c.args[i] = batch::line_up(batch::whole(c, axes, i), ndim - (i == 1));
          }
          return apply(c.op, c.args);
        })
        .depends(Depends::Matrices);

}  // namespace adjoint
