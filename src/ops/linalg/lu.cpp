// LU factors: a = p l u with rows exchanged for the largest pivots. Read matrices.h first.
#include "dispatch/pending_calls.h"
#include "dispatch/program_recorder.h"
#include "ops/linalg/factored.h"

namespace adjoint {
namespace matrices {

Lu factor_lu(T a) {
  const Dims leading = leading_of(a);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  Dims shape = leading;
  shape.push_back(k);
  Lu out{empty_columns(leading, m, n, a.dtype()), empty(shape, DType::Int32), empty_info(leading)};
  Laid from = lay(a);
  char* lu = out.lu.bytes();
  int *pivots = out.pivots.data<int>(), *info = out.info.data<int>();
  WithoutGil release(is_long(from.count, double(m) * double(n) * double(k)));
  linalg::lu(a.dtype(), from.count, m, n, from.at, lu, pivots, info);
  return out;
}

namespace {

// Factors as the kernel takes them, with the leading axes of the right side: dense columns, and a
// step of 0 where all share one matrix.
struct Factors {
  Tensor lu, pivots;
  int64_t step, pivot_step;
};

bool is_columns(T a) {
  int64_t expected = a.size(-2);
  if (a.size(-2) > 1 && a.stride(-2) != 1) return false;
  if (a.size(-1) > 1 && a.stride(-1) != expected) return false;
  expected *= a.size(-1);
  for (int d = a.ndim() - 3; d >= 0; expected *= a->shape[d--]) {
    if (a->shape[d] > 1 && a->strides[d] != expected) return false;
  }
  return true;
}

Factors broadcast(T lu, T pivots, const Dims& leading) {
  const int64_t n = lu.size(-1);
  const Span own{lu->shape, lu.ndim() - 2};
  if (own == Span(leading))
    return {is_columns(lu) ? lu : columns_of(lu), contiguous(pivots), n * n, n};
  if (count_of(own) == 1) return {is_columns(lu) ? lu : columns_of(lu), contiguous(pivots), 0, 0};
  Dims shape = leading;
  shape.push_back(n);
  Tensor rows = empty(shape, DType::Int32);
  GradMode off(false);
  Uncaptured unseen;
  copy_into(rows, op<"expand">(pivots, shape));
  return {columns_of(lu, leading), rows, n * n, n};
}

void conjugate_memory(T x) {
  if (!is_complex(x.dtype())) return;
  const bool wide = x.dtype() == DType::Complex128;
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (wide)
      x.data<double>()[2 * i + 1] = -x.data<double>()[2 * i + 1];
    else
      x.data<float>()[2 * i + 1] = -x.data<float>()[2 * i + 1];
  }
}

}  // namespace

void check_pivots(T pivots, int64_t n) {
  Tensor rows = contiguous(pivots);
  const int* at = rows.data<int>();
  for (int64_t i = 0; i < rows.numel(); ++i) {
    if (at[i] < 1 || at[i] > n)
      runtime_error("linalg.lu_solve: pivots must be between 1 and ", n, " inclusive, got ", at[i],
                    ". Did you properly pass the result of lu_factor?");
  }
}

Tensor solve_lu(T lu, T pivots, T b, bool left, bool adjoint) {
  check_pivots(pivots, lu.size(-1));
  using linalg::Trans;
  const Dims leading = broadcast_shapes({lu->shape, lu.ndim() - 2}, {b->shape, b.ndim() - 2});
  const int64_t n = lu.size(-1), columns = b.size(left ? -1 : -2);
  Factors f = broadcast(lu, pivots, leading);
  // x a = b is a^T x^T = b^T, and rows of x are columns of its transpose.
  Tensor x = left ? empty_columns(leading, n, columns, b.dtype())
                  : empty(with_matrix(leading, columns, n), b.dtype());
  Laid right = lay(b, leading);
  const bool conjugates = !left && adjoint;  // conj(a) x^T = b^T
  const Trans how = left      ? (adjoint ? Trans::Adjoint : Trans::No)
                    : adjoint ? Trans::No
                              : Trans::Transposed;
  const char* factors = f.lu.bytes();
  const int* rows = f.pivots.data<int>();
  char* to = x.bytes();
  WithoutGil release(is_long(right.count, double(n) * double(n) * double(columns)));
  linalg::gather(b.dtype(), right.count, n, columns, left ? right.at : right.at.transposed(), to);
  if (conjugates) conjugate_memory(x);
  linalg::lu_solve(b.dtype(), right.count, n, columns, how, factors, f.step, rows, f.pivot_step,
                   to);
  if (conjugates) conjugate_memory(x);
  return x;
}

}  // namespace matrices

namespace {

using namespace matrices;

void check_matrix(const char* name, T a) {
  if (a.ndim() < 2)
    runtime_error(name, ": Expected tensor with 2 or more dimensions. Got size: ", a.shape(),
                  " instead");
}

Lu checked_lu(const char* name, T a, bool pivot) {
  check_matrix(name, a);
  check_full_precision("lu_cpu", a);
  if (!pivot) runtime_error("linalg.lu_factor: LU without pivoting is not implemented on the CPU");
  return factor_lu(a);
}

// PyTorch's class is RuntimeError here, not LinAlgError.
void check_pivots(const char* name, T info) {
  const int* codes = info.data<int>();
  for (int64_t k = 0; k < info.numel(); ++k) {
    if (codes[k] == 0) continue;
    std::string which = info.ndim() ? text("(Batch element ", k, "): ") : std::string();
    runtime_error(name, ": ", which, "U[", codes[k], ",", codes[k],
                  "] is zero and using it on lu_solve would result in a division by zero. If you "
                  "still want to perform the factorization, consider calling linalg.lu(A, pivot) "
                  "or linalg.lu_factor_ex(A, pivot)");
  }
}

// --- derivatives ---------------------------------------------------------------------------------
// l and u of the packed factors; l has min(m, n) columns and ones on its diagonal, u as many rows.
struct Parts {
  Tensor l, u;
};
Tensor eye_like(T a, int64_t m, int64_t n) { return op<"eye.m">(m, n, a.dtype()); }

Parts parts_of(T lu) {
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  Tensor low = k < n ? first_columns(lu, k) : lu, high = k < m ? first_rows(lu, k) : lu;
  return {tril(low, -1) + eye_like(lu, m, k), triu(high)};
}

Tensor permutation(T pivots, int64_t m, DType dtype) {
  return op<"_pivots_to_matrix">(pivots, m, dtype);
}

// Note [LU, tall and wide]
// With a = p l u, square: l^-1 p^T da u^-1 = l^-1 dl + du u^-1, a strictly lower part and an upper
// one. A wide matrix has further columns u2 = l^-1 a2, a tall one further rows l2 = a2 u^-1, whose
// derivatives follow from these products.
Tensor lu_grad(T g, T lu, T pivots) {
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  Parts p = parts_of(lu);
  Tensor l = k < m ? first_rows(p.l, k) : p.l, u = k < n ? first_columns(p.u, k) : p.u;
  Tensor lh = adjoint_of(l), uh = adjoint_of(u);
  Tensor gl = tril(k < n ? first_columns(g, k) : g, -1), gu = triu(k < m ? first_rows(g, k) : g);
  Tensor low = mul(lh, k < m ? first_rows(gl, k) : gl);
  Tensor high = mul(k < n ? first_columns(gu, k) : gu, uh);
  if (k < n) low = low - mul(columns_from(gu, k), adjoint_of(columns_from(p.u, k)));
  if (k < m) high = high - mul(adjoint_of(rows_from(p.l, k)), rows_from(gl, k));
  Tensor middle = tril(low, -1) + triu(high);
  Tensor ga = solve_triangular(lh, solve_triangular(uh, middle, false, false), true, true, true);
  if (k < n) {
    Tensor g2 = solve_triangular(lh, columns_from(gu, k), true, true, true);
    ga = op<"cat">(Tensors{ga, g2}, -1);
  }
  if (k < m) {
    Tensor g2 = solve_triangular(uh, rows_from(gl, k), false, false);
    ga = op<"cat">(Tensors{ga, g2}, -2);
  }
  return mul(permutation(pivots, m, lu.dtype()), ga);
}

Tensor lu_tangent(T da_given, T lu, T pivots) {
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  Parts p = parts_of(lu);
  Tensor l = k < m ? first_rows(p.l, k) : p.l, u = k < n ? first_columns(p.u, k) : p.u;
  Tensor da = mul(transposed(permutation(pivots, m, lu.dtype())), da_given);
  Tensor d1 = da;
  if (k < m) d1 = first_rows(d1, k);
  if (k < n) d1 = first_columns(d1, k);
  Tensor f = solve_triangular(l, solve_triangular(u, d1, true, false), false, true, true);
  Tensor low = tril(f, -1), high = triu(f);
  Tensor d = mul(l, low) + mul(high, u);
  if (k < n) {
    Tensor d2 = solve_triangular(l, columns_from(da, k), false, true, true);
    d = op<"cat">(Tensors{d, d2 - mul(low, columns_from(p.u, k))}, -1);
  }
  if (k < m) {
    Tensor d2 = solve_triangular(u, rows_from(da, k), true, false);
    d = op<"cat">(Tensors{d, d2 - mul(rows_from(p.l, k), high)}, -2);
  }
  return d;
}

}  // namespace

static const Op& pivots_to_matrix_ =
    def("_pivots_to_matrix(pivots, m: int, dtype: dtype)",
        "The permutation matrices P of `P @ L @ U`, from LAPACK's pivots.")
        .forward([](Call& c) -> Value {
          Tensor pivots = contiguous(c.tensor(0));
          const int64_t m = c.integer(1), k = pivots.size(-1);
          if (k > m) runtime_error("expected at most ", m, " pivots of a matrix, got ", k);
          Dims leading = Span{pivots->shape, pivots.ndim() - 1};
          const int64_t count = count_of(leading);
          Tensor order = empty(Dims{count, m}, DType::Int64);
          const int* from = pivots.data<int>();
          int64_t* rows = order.data<int64_t>();
          for (int64_t b = 0; b < count; ++b) {
            int64_t* to = rows + b * m;
            for (int64_t i = 0; i < m; ++i) to[i] = i;
            for (int64_t i = 0; i < k; ++i) {
              const int64_t with = from[b * k + i] - 1;
              if (with < 0 || with >= m)
                runtime_error(
                    "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                    "Did you properly pass the result of lu_factor?");
              std::swap(to[i], to[with]);
            }
          }
          GradMode off(false);
          Tensor whole = op<"reshape">(order, [&] {
            Dims shape = leading;
            shape.push_back(1);
            shape.push_back(m);
            return shape;
          }());
          Tensor places = op<"unsqueeze">(op<"arange">(m), -1);
          return op<"_to_copy">(op<"eq">(places, whole), c[2]);
        })
        .internal()
        .batch(batch::as_is);

static const Op& lu_factor_ex_ =
    def("linalg_lu_factor_ex(A, *, pivot: bool = True, check_errors: bool = False)",
        "The LU factors in one matrix, pivots, and an info code per matrix: 0, or which pivot is "
        "zero. Raises with `check_errors` only.")
        .forward([](Call& c) -> Value {
          Lu f = checked_lu("torch.lu_factor", c.tensor(0), c.flag(1));
          if (c.flag(2)) check_pivots("torch.linalg.lu_factor_ex", f.info);
          return Tensors{f.lu, f.pivots, f.info};
        })
        .vjp(output(0) | output(1),
             [](C c, Tensor* grads) {
               if (c.has_grad(0)) grads[0] = lu_grad(c.grad(0), c.out(0), c.out(1));
             })
        .jvp([](C c, const Tensor* t) -> Value {
          return Tensors{lu_tangent(t[0], c.out(0), c.out(1)), Tensor(), Tensor()};
        })
        .results({"LU", "pivots", "info"})
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::Matrices);

static const Op& lu_factor_ =
    def("linalg_lu_factor(A, *, pivot: bool = True)",
        "The LU factors of matrices in one matrix (without the ones on the diagonal of L), and "
        "pivots: row i was exchanged with row `pivots[i] - 1`. For linalg.lu_solve.")
        .forward([](Call& c) -> Value {
          Lu f = checked_lu("torch.lu_factor", c.tensor(0), c.flag(1));
          check_pivots("torch.linalg.lu_factor", f.info);
          return Tensors{f.lu, f.pivots};
        })
        .vjp(output(0) | output(1),
             [](C c, Tensor* grads) {
               if (c.has_grad(0)) grads[0] = lu_grad(c.grad(0), c.out(0), c.out(1));
             })
        .jvp([](C c, const Tensor* t) -> Value {
          return Tensors{lu_tangent(t[0], c.out(0), c.out(1)), Tensor()};
        })
        .results({"LU", "pivots"})
        .function_only()
        .node("LinalgLuFactorExBackward0")
        .batch(batch::as_is)
        .depends(Depends::Matrices);

// One pivot for each row or column of the factors, whichever are fewer.
static void check_one_per_row(T lu, T pivots) {
  Dims wanted = Span{lu->shape, lu.ndim() - 2};
  wanted.push_back(std::min(lu.size(-2), lu.size(-1)));
  if (!(Span{pivots->shape, pivots.ndim()} == Span(wanted)))
    runtime_error("torch.lu_unpack: expected pivots of shape ", Span(wanted), " for LU of shape ",
                  lu.shape(), ", got ", pivots.shape());
}

static const Op& lu_unpack_ =
    def("lu_unpack(LU_data, LU_pivots, unpack_data: bool = True, unpack_pivots: bool = True)",
        "P, L and U from the results of linalg.lu_factor.")
        .forward([](Call& c) -> Value {
          Tensor lu = c.tensor(0), pivots = c.tensor(1);
          check_matrix("torch.lu_unpack", lu);
          if (c.flag(3) && pivots.dtype() != DType::Int32)
            runtime_error(
                "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
                "dtype.\nNote: this function is intended to be used with the output produced by "
                "torch.linalg.lu_factor");
          if (c.flag(3)) check_one_per_row(lu, pivots);
          Tensors out(3);
          if (c.flag(3)) out[0] = permutation(pivots, lu.size(-2), lu.dtype());
          if (c.flag(2)) {
            Parts p = parts_of(lu);
            out[1] = p.l;
            out[2] = p.u;
          }
          for (Tensor& t : out) {
            if (!t) t = empty(Dims{0}, lu.dtype());
          }
          return out;
        })
        .results({"P", "L", "U"})
        .function_only();

static const Op& linalg_lu_ =
    def("linalg_lu(A, *, pivot: bool = True)",
        "P, L and U with `A = P @ L @ U`: a permutation, a lower triangular matrix with ones on "
        "its diagonal, and an upper triangular one.")
        .forward([](Call& c) -> Value {
          check_matrix("linalg.lu", c.tensor(0));
          Tensors f = op<"linalg_lu_factor_ex">(c[0], c[1], false).tensors();
          return op<"lu_unpack">(f[0], f[1]);
        })
        .results({"P", "L", "U"})
        .function_only();

// --- solutions -----------------------------------------------------------------------------------
namespace {

void check_lu_solve(T lu, T pivots, T b, bool left) {
  check_floating("torch.linalg.lu_solve", lu);
  check_square("torch.linalg.lu_solve", lu);
  if (pivots.dtype() != DType::Int32)
    runtime_error("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32");
  check_same_dtype("linalg.lu_solve", lu, b, "LU", "B");
  check_system("linalg.lu_solve", lu, b, left);
  if (pivots.ndim() == 0 || pivots.size(-1) != lu.size(-1))
    runtime_error(
        "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the "
        "matrix");
  if (!(Span{lu->shape, lu.ndim() - 2} == Span{pivots->shape, pivots.ndim() - 1}))
    runtime_error(
        "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got "
        "pivots with shape ",
        pivots.shape(), " instead");
  check_full_precision("linalg.lu_solve_cpu", lu);
}

// p l u as a function of the packed factors.
struct LuProduct {
  Tensor p;
  Parts parts;
  LuProduct(T lu, T pivots)
      : p(permutation(pivots, lu.size(-2), lu.dtype())), parts(parts_of(lu)) {}
  Tensor grad(T ga) const {
    Tensor turned = mul(transposed(p), ga);
    return tril(mul(turned, adjoint_of(parts.u)), -1) + triu(mul(adjoint_of(parts.l), turned));
  }
  Tensor tangent(T d) const { return mul(p, mul(tril(d, -1), parts.u) + mul(parts.l, triu(d))); }
};

}  // namespace

static const Op& lu_solve_ =
    def("linalg_lu_solve(LU, pivots, B, *, left: bool = True, adjoint: bool = False)",
        "The solution of `A @ X = B` (`X @ A = B` with left=False, with `A.mH` for A with "
        "`adjoint`) from the results of linalg.lu_factor.")
        .forward([](Call& c) -> Value {
          Tensor lu = c.tensor(0), pivots = c.tensor(1), b = c.tensor(2);
          check_lu_solve(lu, pivots, b, c.flag(3));
          Tensor x = solve_lu(lu, pivots, b, c.flag(3), c.flag(4));
          const bool turned = !c.flag(3) && is_complex(x.dtype());  // PyTorch's solves for x.mH
          return turned ? shown_as_conjugate(x) : x;
        })
        .vjp(input(0) | input(1) | output(),
             [](C c, Tensor* grads) {
               const bool left = c.in(3).boolean(), adjoint = c.in(4).boolean();
               Tensor gb = op<"linalg_lu_solve">(c.in(0), c.in(1), c.grad(), left, !adjoint);
               if (c.needs(2)) grads[2] = gb;
               if (!c.needs(0)) return;
               Tensor x = c.out(), ga;
               if (left)
                 ga = adjoint ? mul(x, adjoint_of(gb)) : mul(gb, adjoint_of(x));
               else
                 ga = adjoint ? mul(adjoint_of(gb), x) : mul(adjoint_of(x), gb);
               grads[0] = LuProduct(c.in(0), c.in(1)).grad(-ga);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          const bool left = c.in(3).boolean(), adjoint = c.in(4).boolean();
          Tensor moved = t[2];
          if (t[0]) {
            Tensor da = LuProduct(c.in(0), c.in(1)).tangent(t[0]), x = c.out();
            if (adjoint) da = adjoint_of(da);
            moved = minus(moved, left ? mul(da, x) : mul(x, da));
          }
          return op<"linalg_lu_solve">(c.in(0), c.in(1), moved, left, adjoint);
        })
        .function_only()
        .batch([](Call& c, const int* axes) -> Value {
          int ndim = std::max(batch::sample_ndim(c, axes, 0), batch::sample_ndim(c, axes, 2));
          const bool whole = axes[0] >= 0 || axes[1] >= 0;  // both, or neither
          for (int i = 0; i < 3; ++i) {
            if (i < 2 ? whole : axes[i] >= 0)
              c.args[i] = batch::line_up(batch::whole(c, axes, i), ndim - (i == 1));
          }
          return apply(c.op, c.args);
        })
        .depends(Depends::Matrices);

static const Op& old_lu_solve_ =
    def("lu_solve(input|b, LU_data, LU_pivots)",
        "The solution of `A @ x = input` from the LU factors of A; see linalg.lu_solve.")
        .forward([](Call& c) -> Value { return op<"linalg_lu_solve">(c[1], c[2], c[0]); })
        .autocast(Autocast::Float32);

static const Op& lu_with_info_ =
    def("_lu_with_info(input, pivot: bool = True, check_errors: bool = True)",
        "The results of linalg.lu_factor_ex; what torch.lu calls.")
        .forward([](Call& c) -> Value { return op<"linalg_lu_factor_ex">(c[0], c[1], c[2]); })
        .results({"LU", "pivots", "info"})
        .function_only()
        .no_out()
        .autocast(Autocast::Float32);

}  // namespace adjoint
