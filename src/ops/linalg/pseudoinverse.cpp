// Pseudoinverses, least squares and ranks. Read matrices.h first.
#include "ops/linalg/gaps.h"

namespace adjoint {
namespace {

using namespace matrices;

double epsilon(DType d) { return real_dtype(d) == DType::Float64 ? 0x1p-52 : 0x1p-23; }

// --- tolerances ----------------------------------------------------------------------------------
// atol and rtol are numbers, tensors that broadcast with the leading axes, or None. Without any the
// relative one is eps max(m, n); with atol > 0 alone it is 0.
struct Tolerances {
  Tensor atol, rtol;
};

Tensor as_tensor(const char* name, const char* which, const Value& v, T like) {
  if (v.is_tensor()) {
    if (is_complex(v.tensor().dtype()))
      runtime_error(name, ": ", which, " tensor of complex type is not supported. Got ",
                    v.tensor().dtype());
    return v.tensor();
  }
  return op<"full">(Dims{}, v.is_none() ? Value(0.0) : v, real_dtype(like.dtype()));
}

Tolerances tolerances(const char* name, const Value& atol, const Value& rtol, T a) {
  const double standard = epsilon(a.dtype()) * double(std::max(a.size(-2), a.size(-1)));
  Tolerances out{as_tensor(name, "atol", atol, a), Tensor()};
  if (!rtol.is_none()) {
    out.rtol = as_tensor(name, "rtol", rtol, a);
  } else if (atol.is_none()) {
    out.rtol = as_tensor(name, "rtol", Value(standard), a);
  } else {
    out.rtol = op<"where">(op<"gt">(out.atol, 0), 0.0, standard);
  }
  return out;
}

// max(atol, rtol * largest): one per matrix, to compare with values along the last axis.
Tensor threshold(const Tolerances& t, T largest) {
  return column(op<"maximum">(op<"_to_copy">(t.atol, largest.dtype()),
                              op<"_to_copy">(t.rtol, largest.dtype()).tensor() * largest));
}

Tensor first_value(T s) { return op<"select">(s, -1, 0); }

// --- pinv ----------------------------------------------------------------------------------------
Tensor pseudoinverse(T a, const Value& atol, const Value& rtol, bool hermitian) {
  GradMode off(false);
  Tolerances t = tolerances("linalg.pinv", atol, rtol, a);
  if (a.size(-2) == 0 || a.size(-1) == 0)
    return empty(with_matrix(leading_of(a), a.size(-1), a.size(-2)), a.dtype());
  auto inverted = [&](T s, T limit) -> Tensor {
    return op<"where">(op<"gt">(op<"abs">(s), limit), op<"reciprocal">(s), 0.0);
  };
  if (hermitian) {
    check_square("linalg.pinv", a);
    Tensors e = op<"linalg_eigh">(a).tensors();
    Tensor limit = threshold(t, op<"amax">(op<"abs">(e[0]), Dims{-1}));
    return mul(e[1] * row(inverted(e[0], limit)), adjoint_of(e[1]));
  }
  Tensors f = op<"_linalg_svd">(a, false).tensors();
  return mul(adjoint_of(f[2]) * row(inverted(f[1], threshold(t, first_value(f[1])))),
             adjoint_of(f[0]));
}

// Golub and Pereyra's derivative: d(p) = -p da p + p p^H da^H (1 - a p) + (1 - p a) da^H p^H p, for
// matrices of constant rank.
Tensor pinv_grad(T g, T p, T a) {
  const int64_t m = a.size(-2), n = a.size(-1);
  Tensor ph = adjoint_of(p), gh = adjoint_of(g);
  if (m <= n) {
    Tensor k = mul(gh, p), kp = mul(k, ph);
    return -adjoint_of(mul(p, k)) + kp - mul(mul(a, p), kp) + mul(mul(ph, p), gh - mul(k, a));
  }
  Tensor k = mul(p, gh), pk = mul(ph, k);
  return -adjoint_of(mul(k, p)) + mul(mul(gh - mul(a, k), p), ph) + pk - mul(mul(pk, p), a);
}

Tensor pinv_tangent(T da, T p, T a) {
  Tensor dh = adjoint_of(da), ph = adjoint_of(p);
  Tensor left = mul(p, mul(ph, dh)), right = mul(dh, mul(ph, p));
  return -mul(mul(p, da), p) + left - mul(mul(left, a), p) + right - mul(p, mul(a, right));
}

void check_pinv(T a) {
  if (a.ndim() >= 2 && !is_half(a.dtype()) && !is_integral(a.dtype())) return;
  runtime_error("linalg.pinv(", a.dtype(), a.shape(),
                "): expected a tensor with 2 or more dimensions of float, double, cfloat or "
                "cdouble types");
}

}  // namespace

static const Op& pinv_ =
    def("_linalg_pinv(input, atol: Operand? = None, rtol: Operand? = None, hermitian: bool = "
        "False)",
        "The pseudoinverse; see linalg.pinv.")
        .forward([](Call& c) -> Value {
          check_pinv(c.tensor(0));
          return pseudoinverse(c.tensor(0), c[1], c[2], c.flag(3));
        })
        .grad(0, input(0) | output(), [](T g, C c) { return pinv_grad(g, c.out(), c.tensor(0)); })
        .jvp([](C c, const Tensor* t) -> Value {
          if (!t[0]) return Tensor();
          return pinv_tangent(t[0], c.out(), c.tensor(0));
        })
        .internal()
        .called("linalg.pinv")
        .node("LinalgPinvBackward0")
        .batch([](Call& c, const int* axes) -> Value {
          // Tolerances broadcast with the leading axes of the matrices.
          const int ndim = batch::sample_ndim(c, axes, 0) - 2;
          for (int i = 1; i < 3; ++i) {
            if (axes[i] >= 0) c.args[i] = batch::line_up(c.tensor(i), ndim);
          }
          c.args[0] = batch::whole(c, axes, 0);
          return apply(c.op, c.args);
        })
        .depends(Depends::Matrices);

static const Op& linalg_pinv_ =
    def("linalg_pinv(input|A, *, atol: Operand? = None, rtol: Operand? = None, hermitian: bool = "
        "False)",
        "The pseudoinverse (Moore-Penrose). Singular values up to max(atol, rtol * largest) count "
        "as zero; by default rtol is eps max(m, n), or 0 if atol is given. With `hermitian` it is "
        "computed from eigenvalues. Its derivative supposes that the rank is constant.")
        .forward([](Call& c) -> Value { return op<"_linalg_pinv">(c[0], c[1], c[2], c[3]); })
        .function_only()
        .out_dtype(OutDType::Converts);
static const Op& linalg_pinv_rcond_ =
    def("linalg_pinv.rcond(input|A, rcond: Operand, hermitian: bool = False)",
        "The pseudoinverse with rtol = rcond.")
        .forward([](Call& c) -> Value { return op<"_linalg_pinv">(c[0], Value(), c[1], c[2]); })
        .function_only()
        .out_dtype(OutDType::Converts);

static const Op& pinverse_ =
    def("pinverse(input, rcond: float = 1e-15)", "The pseudoinverse; see linalg.pinv.")
        .forward([](Call& c) -> Value { return op<"_linalg_pinv">(c[0], Value(), c[1]); })
        .no_out()
        .autocast(Autocast::Float32);

// --- rank ----------------------------------------------------------------------------------------
namespace {

Tensor rank(T a, const Value& atol, const Value& rtol, bool hermitian) {
  GradMode off(false);
  check_ndim("torch.linalg.matrix_rank", a, "input");
  if (is_half(a.dtype()) || is_integral(a.dtype()))
    runtime_error("linalg.matrix_rank: expected a tensor of float, double, cfloat or cdouble, got ",
                  a.dtype());
  Tolerances t = tolerances("torch.linalg.matrix_rank", atol, rtol, a);
  if (a.size(-2) == 0 || a.size(-1) == 0) return zeros(leading_of(a), DType::Int64);
  if (hermitian) check_square("linalg.matrix_rank", a);
  Tensor s = hermitian ? op<"abs">(op<"_eigvalsh">(a)).tensor() : op<"_svdvals">(a).tensor();
  Tensor limit = threshold(t, op<"amax">(s, Dims{-1}));
  return op<"sum">(op<"gt">(s, limit), Dims{-1});
}

}  // namespace

static const Op& matrix_rank_ =
    def("linalg_matrix_rank(input|A, *, atol: Operand? = None, rtol: Operand? = None, hermitian: "
        "bool = False)",
        "How many singular values (sizes of eigenvalues, with `hermitian`) exceed max(atol, rtol * "
        "largest); by default rtol is eps max(m, n), or 0 if atol is given.")
        .forward([](Call& c) -> Value { return rank(c.tensor(0), c[1], c[2], c.flag(3)); })
        .function_only()
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);
static const Op& matrix_rank_tol_ =
    def("linalg_matrix_rank.tol(input|A, tol: Operand, hermitian: bool = False)",
        "How many singular values exceed tol.")
        .forward([](Call& c) -> Value { return rank(c.tensor(0), c[1], Value(0.0), c.flag(2)); })
        .function_only()
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);

// --- least squares -------------------------------------------------------------------------------
namespace {

using linalg::Driver;

Driver driver_of(const Value& given) {
  if (given.is_none()) return Driver::Gelsy;
  const std::string& s = given.str();
  if (s == "gels") return Driver::Gels;
  if (s == "gelsy") return Driver::Gelsy;
  if (s == "gelsd") return Driver::Gelsd;
  if (s == "gelss") return Driver::Gelss;
  runtime_error(
      "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, "
      "gelss)");
}

void check_least_squares(T a, T b, bool vector) {
  if (a.ndim() < 2) runtime_error("torch.linalg.lstsq: input must have at least 2 dimensions.");
  if (b.ndim() < 1) runtime_error("torch.linalg.lstsq: other must have at least 1 dimension.");
  if (is_half(a.dtype()) || is_integral(a.dtype()))
    runtime_error("torch.linalg.lstsq: expected float, double, cfloat or cdouble, got ", a.dtype());
  if (a.dtype() != b.dtype())
    runtime_error(
        "torch.linalg.lstsq: Expected input and other to have the same dtype, but got "
        "input's dtype ",
        a.dtype(), " and other's dtype ", b.dtype());
  const int axis = vector ? -1 : -2;
  if (b.ndim() + axis < 0 || a.size(-2) != b.size(axis))
    runtime_error("torch.linalg.lstsq: input.size(-2) should match other.size(", axis, ")");
}

Value least_squares(Call& c) {
  Tensor a = c.tensor(0), b = c.tensor(1);
  const Driver driver = driver_of(c[3]);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n), columns = b.size(-1);
  const Dims leading = broadcast_shapes({a->shape, a.ndim() - 2}, {b->shape, b.ndim() - 2});
  const int64_t count = count_of(leading), height = std::max(m, n);
  const double rcond = c[2].is_none() ? epsilon(a.dtype()) * double(height) : c.real(2);
  const DType real = real_dtype(a.dtype());
  Tensor copy = columns_of(a, leading);
  Tensor x = empty_columns(leading, height, columns, b.dtype());
  GradMode off(false);
  if (x.numel()) {
    if (height > m) copy_into(rows_from(x, m), op<"zeros_like">(rows_from(x, m)));
    Dims whole = with_matrix(leading, m, columns);
    copy_into(first_rows(x, m), op<"expand">(b, whole));
  }
  Tensor info = zeros(leading, DType::Int32), rank = zeros(leading, DType::Int32);
  if (k > 0) {
    char *from = copy.bytes(), *to = x.bytes();
    int *codes = info.data<int>(), *ranks = rank.data<int>();
    WithoutGil release(is_long(count, 4 * double(m) * double(n) * double(k)));
    linalg::least_squares(a.dtype(), driver, count, m, n, columns, rcond, from, to, ranks, nullptr,
                          codes);
  }
  check_info("torch.linalg.lstsq", info, [](int code) {
    return text("The algorithm for computing the SVD failed to converge; ", code,
                " off-diagonal elements of an intermediate bidiagonal form did not converge to "
                "zero.");
  });
  // gels knows the rank to be full, and says so by not saying anything.
  Tensor ranks = driver == Driver::Gels ? empty(Dims{0}, DType::Int64) : cast(rank, DType::Int64);
  Tensor residuals = empty(Dims{0}, real);
  if (m > n && driver != Driver::Gelsy) {
    bool full = driver == Driver::Gels;
    if (!full) {
      full = true;
      for (int64_t i = 0; i < rank.numel(); ++i) full &= rank.data<int>()[i] == n;
    }
    if (full) {
      Tensor rest = op<"abs">(rows_from(x, n));
      residuals = op<"sum">(rest * rest, Dims{-2});
    }
  }
  return Tensors{columns_of(first_rows(x, n)), residuals, ranks};
}

// Note [Units of least squares]
// The derivative of p b squares the condition of the matrix, and columns in units of 1e-6 and 1e6
// have one of 1e12. Where columns are independent, their units are those of x, and where rows are,
// those of b: with powers of two, y = c x solves the problem of a / c, whose condition is its own.
// A solution of smallest size among many (of deficient rank) depends on the units and has no other.
struct Unitless {
  Tensor a, rows, columns;

  // `rank` is empty where it is known to be full.
  Unitless(T given, T rank) {
    const int64_t m = given.size(-2), n = given.size(-1);
    const bool by_columns = m >= n;
    Tensor units;
    if (given.numel()) {
      GradMode off(false);
      Tensor most = op<"amax">(op<"abs">(given), Dims{by_columns ? -2 : -1}, true);
      units = op<"exp2">(op<"floor">(op<"log2">(most)));
      Tensor good = op<"logical_and">(op<"isfinite">(units), op<"gt">(units, 0));
      if (rank.numel())
        good = op<"logical_and">(good, column(column(op<"eq">(rank, std::min(m, n)))));
      units = op<"where">(good, units, 1.0);
    }
    (by_columns ? columns : rows) = units;
    a = units ? given / units : given;
  }
  Tensor of_x(T g) const { return columns ? g / transposed(columns) : g; }  // or of its gradient
  Tensor of_b(T b) const { return rows ? b / rows : b; }                    // or of its gradient
  Tensor of_a(T g) const { return rows ? g / rows : columns ? g / columns : g; }
};

bool has_values(Driver d) { return d == Driver::Gelsd || d == Driver::Gelss; }

}  // namespace

static const Op& lstsq_matrices_ =
    def("_linalg_lstsq(A, B, rcond: float? = None, driver: str? = None)",
        "Least squares for matrices B; see linalg.lstsq.")
        .forward(least_squares)
        .vjp(input(0) | input(1) | output(0) | output(2),
             [](C c, Tensor* grads) {
               // x = p b, and the residuals are |a x - b|^2 with x at their minimum.
               Tensor a = c.in(0), b = c.in(1), gb, ga;
               if (c.has_grad(0)) {
                 const Unitless in(a, c.out(2));
                 Tensor p = op<"_linalg_pinv">(in.a), g = in.of_x(c.grad(0));
                 gb = in.of_b(mul(adjoint_of(p), g));
                 if (c.needs(0)) ga = in.of_a(pinv_grad(mul(g, adjoint_of(in.of_b(b))), p, in.a));
               }
               if (c.has_grad(1) && c.grad(1).numel()) {
                 Tensor x = c.out(0), rest = (mul(a, x) - b) * (row(c.grad(1)) * 2.0);
                 gb = minus(gb, rest);
                 if (c.needs(0)) ga = plus(ga, mul(rest, adjoint_of(x)));
               }
               if (c.needs(0)) grads[0] = ga;
               if (c.needs(1)) grads[1] = gb;
             })
        .jvp([](C c, const Tensor* t) -> Value {
          const Unitless in(c.in(0), c.out(2));
          Tensor a = c.in(0), b = c.in(1), x = c.out(0), p = op<"_linalg_pinv">(in.a), dx;
          if (t[0]) dx = mul(pinv_tangent(in.of_a(t[0]), p, in.a), in.of_b(b));
          if (t[1]) dx = plus(dx, mul(p, in.of_b(t[1])));
          dx = in.of_x(dx);
          Tensor dr;
          if (c.out(1).numel()) {
            Tensor rest = mul(a, x) - b, moved = t[0] ? mul(t[0], x) : Tensor();
            moved = minus(moved, t[1]);
            dr = real_part(op<"sum">(conjugate(rest) * moved, Dims{-2})) * 2.0;
          }
          return Tensors{dx, dr, Tensor()};
        })
        .results({"solution", "residuals", "rank"})
        .internal()
        .called("linalg.lstsq")
        .node("LinalgLstsqBackward0")
        .by_values([](const Value* v) { return has_values(driver_of(v[3])); })
        .batch([](Call& c, const int* axes) -> Value {
          const int64_t n = batch::size(c, axes);
          Tensors out = batch::lined_up(c, axes).tensors();
          for (size_t i = 1; i < 3; ++i) {  // those without values are one for all
            if (out[i].numel() == 0 && out[i].ndim() == 1)
              out[i] = op<"zeros">(Dims{n, 0}, out[i].dtype());
          }
          return out;
        })
        .depends(Depends::Matrices);

static const Op& linalg_lstsq_ =
    def("linalg_lstsq(input|A, b|B, rcond: float? = None, *, driver: str? = None)",
        "The solution of least squares, `min |A @ X - B|`, with the sums of squared residuals "
        "where "
        "these are known, the rank, and singular values, as the LAPACK `driver` gives them: gelsy "
        "(the default), gels (for matrices of full rank), gelsd or gelss.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), b = c.tensor(1);
          const bool vector = a.ndim() - 1 == b.ndim() && a.ndim() >= 2 &&
                              Span{a->shape, a.ndim() - 1} == b.shape();
          check_least_squares(a, b, vector || b.ndim() == 1);
          const bool one = vector || b.ndim() == 1;
          Tensors out = op<"_linalg_lstsq">(a, one ? column(b) : b, c[2], c[3]).tensors();
          if (one) out[0] = op<"squeeze.dim">(out[0], -1);
          GradMode off(false);
          out.push_back(has_values(driver_of(c[3]))
                            ? op<"_svdvals">(a).tensor()
                            : op<"zeros">(Dims{0}, real_dtype(a.dtype())).tensor());
          return out;
        })
        .results({"solution", "residuals", "rank", "singular_values"})
        .function_only()
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);

}  // namespace adjoint
