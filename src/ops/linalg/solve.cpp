// Systems of linear equations, and inverses. Read matrices.h and factored.h first.
//
// Note [Factors are kept]
// A matrix is factored once. What its derivatives solve are systems with the same matrix or its
// adjoint, so they are written with `_solve_factored`, which takes the factors along as constants.
#include "ops/linalg/factored.h"

namespace adjoint {
namespace {

using namespace matrices;

struct Solution {
  Tensor x;
  Lu factors;
};

Solution solve(const char* name, T a, T b, bool left) {
  check_floating(name, a);
  check_system(name, a, b, left);
  check_same_dtype(name, a, b);
  check_full_precision("lu_cpu", a);
  Span of_a{a->shape, a.ndim() - 2}, of_b{b->shape, b.ndim() - 2};
  if (!left || !(of_a == of_b)) {
    Lu f = factor_lu(a);
    Tensor x = solve_lu(f.lu, f.pivots, b, left, false);
    return {x, f};
  }
  const int64_t n = a.size(-1), columns = b.size(-1);
  Dims leading = of_a, shape = leading;
  shape.push_back(n);
  Solution out{
      empty_columns(leading, n, columns, a.dtype()),
      {empty_columns(leading, n, n, a.dtype()), empty(shape, DType::Int32), empty_info(leading)}};
  Laid from = lay(a), right = lay(b);
  char *lu = out.factors.lu.bytes(), *x = out.x.bytes();
  int *pivots = out.factors.pivots.data<int>(), *info = out.factors.info.data<int>();
  WithoutGil release(is_long(from.count, double(n) * double(n) * double(n + columns)));
  linalg::solve(a.dtype(), from.count, n, columns, from.at, right.at, lu, pivots, info, x);
  return out;
}

// With x = op(a)^-1 b: the gradient of b, and that of a from it.
Tensor matrix_grad(T gb, T x, bool left, bool adjoint) {
  if (left) return -(adjoint ? mul(x, adjoint_of(gb)) : mul(gb, adjoint_of(x)));
  return -(adjoint ? mul(adjoint_of(gb), x) : mul(adjoint_of(x), gb));
}

void solve_vjp(C c, T g, T x, const Value& kept, bool left, bool adjoint, Tensor* grads) {
  if (!c.needs(0) && !c.needs(1)) return;
  Tensor gb = solve_factored(c.in(0), g, kept, left, !adjoint);
  if (c.needs(0)) grads[0] = matrix_grad(gb, x, left, adjoint);
  if (c.needs(1)) grads[1] = gb;
}

Tensor solve_jvp(C c, T da, T db, T x, const Value& kept, bool left, bool adjoint) {
  Tensor moved = db;
  if (da) {
    Tensor d = adjoint ? adjoint_of(da) : da;
    moved = minus(moved, left ? mul(d, x) : mul(x, d));
  }
  return solve_factored(c.in(0), moved, kept, left, adjoint);
}

}  // namespace

// Note [Factors are kept]
static const Op& solve_factored_ =
    def("_solve_factored(A, B, LU, pivots, left: bool, adjoint: bool)",
        "The solution of `op(A) @ X = B`, or of `X @ op(A) = B`, with the LU factors of A at hand; "
        "op is the adjoint or nothing.")
        .forward([](Call& c) -> Value {
          return solve_lu(c.tensor(2), c.tensor(3), c.tensor(1), c.flag(4), c.flag(5));
        })
        .vjp(input(0) | input(2) | input(3) | output(),
             [](C c, Tensor* grads) {
               Value factors = std::vector<Value>{c.in(2), c.in(3)};
               solve_vjp(c, c.grad(), c.out(), factors, c.in(4).boolean(), c.in(5).boolean(),
                         grads);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          Value factors = std::vector<Value>{c.in(2), c.in(3)};
          return solve_jvp(c, t[0], t[1], c.out(), factors, c.in(4).boolean(), c.in(5).boolean());
        })
        .internal()
        .called("linalg.solve")
        .batch([](Call& c, const int* axes) -> Value {
          // Pivots have an axis less than the matrices, and are lined up with them.
          int ndim = std::max(batch::sample_ndim(c, axes, 0), batch::sample_ndim(c, axes, 1));
          for (int i = 0; i < 4; ++i) {
            if (axes[i] >= 0) c.args[i] = batch::line_up(c.tensor(i), ndim - (i == 3));
          }
          return apply(c.op, c.args);
        })
        .depends(Depends::Matrices);

static const Op& solve_matrices_ =
    def("_linalg_solve(A, B, left: bool = True)",
        "The solution of `A @ X = B` for matrices B; see linalg.solve.")
        .forward([](Call& c) -> Value {
          Solution s = solve("linalg.solve", c.tensor(0), c.tensor(1), c.flag(2));
          check_info("torch.linalg.solve", s.factors.info, singular_solver);
          c.kept = kept_factors(s.factors);
          return s.x;
        })
        .vjp(input(0) | output(),
             [](C c, Tensor* grads) {
               solve_vjp(c, c.grad(), c.out(), c.kept(), c.in(2).boolean(), false, grads);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          return solve_jvp(c, t[0], t[1], c.out(), c.kept(), c.in(2).boolean(), false);
        })
        .internal()
        .called("linalg.solve")
        .node("LinalgSolveExBackward0")
        .batch(batch::lined_up)
        .depends(Depends::Matrices);

static const Op& solve_matrices_ex_ =
    def("_linalg_solve_ex(A, B, left: bool = True, check_errors: bool = False)",
        "The solution of `A @ X = B` for matrices B, and info codes; see linalg.solve_ex.")
        .forward([](Call& c) -> Value {
          Solution s = solve("linalg.solve", c.tensor(0), c.tensor(1), c.flag(2));
          if (c.flag(3)) check_info("torch.linalg.solve_ex", s.factors.info, singular_solver);
          c.kept = kept_factors(s.factors);
          return Tensors{s.x, s.factors.info};
        })
        .vjp(input(0) | output(0),
             [](C c, Tensor* grads) {
               if (!c.has_grad(0)) return;
               solve_vjp(c, c.grad(0), c.out(0), c.kept(), c.in(2).boolean(), false, grads);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          return Tensors{solve_jvp(c, t[0], t[1], c.out(0), c.kept(), c.in(2).boolean(), false),
                         Tensor()};
        })
        .results({"result", "info"})
        .internal()
        .called("linalg.solve_ex")
        .node("LinalgSolveExBackward0")
        .batch([](Call& c, const int* axes) -> Value {
          // Codes belong to the matrices of A, however B is shaped.
          Dims shape = leading_of(c.tensor(0));
          Tensors out = batch::lined_up(c, axes).tensors();
          if (axes[0] < 0) shape.insert(0, batch::size(c, axes));
          out[1] = axes[0] < 0 ? op<"expand">(out[1], shape) : op<"reshape">(out[1], shape);
          return out;
        })
        .depends(Depends::Matrices);

// --- the functions -------------------------------------------------------------------------------
namespace {

// NumPy's rule: a right side with one axis, or with the leading axes and rows of a, is vectors.
bool is_vector(T a, T b) {
  if (b.ndim() == 1) return true;
  return a.ndim() - 1 == b.ndim() && Span{a->shape, a.ndim() - 1} == b.shape();
}

// The right side as matrices of one column.
Tensor matrices_of(T a, T b, bool vector, bool left) {
  check_floating("linalg.solve", a);
  check_square("linalg.solve", a);
  if (vector && !left)
    runtime_error(
        "linalg.solve: Vector broadcasting of the left hand side is not supported for "
        "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)");
  return vector ? column(b) : b;
}

}  // namespace

static const Op& linalg_solve_ =
    def("linalg_solve(A, B, *, left: bool = True)",
        "The solution X of `A @ X = B`, or of `X @ A = B` with left=False, for square matrices A "
        "and matrices (or vectors) B; leading axes broadcast. Raises LinAlgError for a singular "
        "matrix.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), b = c.tensor(1);
          const bool vector = is_vector(a, b);
          Tensor x = op<"_linalg_solve">(a, matrices_of(a, b, vector, c.flag(2)), c[2]);
          return vector ? op<"squeeze.dim">(x, -1).tensor() : x;
        })
        .function_only()
        .autocast(Autocast::Float32);

static const Op& linalg_solve_ex_ =
    def("linalg_solve_ex(A, B, *, left: bool = True, check_errors: bool = False)",
        "linalg.solve, and an info code per matrix: 0, or which pivot is zero. Raises with "
        "`check_errors` only.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), b = c.tensor(1);
          const bool vector = is_vector(a, b);
          Tensors out =
              op<"_linalg_solve_ex">(a, matrices_of(a, b, vector, c.flag(2)), c[2], c[3]).tensors();
          if (vector) out[0] = op<"squeeze.dim">(out[0], -1);
          return out;
        })
        .results({"result", "info"})
        .function_only();

// --- inverses ------------------------------------------------------------------------------------
namespace {

struct Inverse {
  Tensor inverse, info;
};

Inverse invert(const char* name, T a) {
  check_square(name, a);
  check_floating(name, a);
  if (is_half(a.dtype()))
    runtime_error(name, ": Low precision dtypes not supported. Got ", a.dtype());
  Lu f = factor_lu(a);
  const int64_t n = a.size(-1), count = f.info.numel();
  char* m = f.lu.bytes();
  const int *pivots = f.pivots.data<int>(), *info = f.info.data<int>();
  WithoutGil release(is_long(count, double(n) * double(n) * double(n)));
  linalg::invert(a.dtype(), count, n, m, pivots, info);
  release.end();
  return {f.lu, f.info};
}

Tensor inverse_grad(T g, T inverse) {
  Tensor h = adjoint_of(inverse);
  return -mul(h, mul(g, h));
}
Tensor inverse_tangent(T da, T inverse) { return -mul(inverse, mul(da, inverse)); }

}  // namespace

static const Op& linalg_inv_ =
    def("linalg_inv(A)", "The inverse of square matrices. Raises LinAlgError for a singular one.")
        .forward([](Call& c) -> Value {
          Inverse i = invert("linalg.inv", c.tensor(0));
          check_info("linalg.inv", i.info, singular_inverse);
          return i.inverse;
        })
        .grad(0, output(), [](T g, C c) { return inverse_grad(g, c.out()); })
        .jvp([](C c, const Tensor* t) -> Value { return inverse_tangent(t[0], c.out()); })
        .function_only()
        .node("LinalgInvExBackward0")
        .batch(batch::as_is)
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32);

static const Op& linalg_inv_ex_ =
    def("linalg_inv_ex(A, *, check_errors: bool = False)",
        "The inverse of square matrices, and an info code for each: 0, or which pivot is zero. "
        "Raises with `check_errors` only.")
        .forward([](Call& c) -> Value {
          Inverse i = invert("linalg.inv", c.tensor(0));
          if (c.flag(1)) check_info("linalg.inv_ex", i.info, singular_inverse);
          return Tensors{i.inverse, i.info};
        })
        .vjp(output(0),
             [](C c, Tensor* grads) {
               if (c.has_grad(0)) grads[0] = inverse_grad(c.grad(0), c.out(0));
             })
        .jvp([](C c, const Tensor* t) -> Value {
          return Tensors{inverse_tangent(t[0], c.out(0)), Tensor()};
        })
        .results({"inverse", "info"})
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::Matrices)
        .autocast(Autocast::Float32);

static const Op& inverse_ = def("inverse(input)", "The inverse of square matrices; linalg.inv.")
                                .forward([](Call& c) -> Value { return op<"linalg_inv">(c[0]); })
                                .autocast(Autocast::Float32);

}  // namespace adjoint
