// Norms of matrices and condition numbers, written from ops. Read matrices.h, and
// ops/reduce/statistics.cpp for norms of vectors.
#include <cmath>

#include "ops/linalg/matrices.h"

namespace adjoint {
namespace {

using namespace matrices;

const double kInfinity = __builtin_inf();

void check_dtype(const char* name, T a, const Value& dtype) {
  if (dtype.is_none()) return;
  const DType d = dtype.dtype();
  if (is_integral(d))
    runtime_error(name, ": dtype should be floating point or complex, but got ", d);
  if (is_complex(d) != is_complex(a.dtype()))
    runtime_error(name, ": dtype should be ", is_complex(a.dtype()) ? "complex" : "real", " for ",
                  is_complex(a.dtype()) ? "complex" : "real", " inputs, but got ", d);
  if (promote_types(a.dtype(), d) != d)
    runtime_error(name, ": the dtype of the input (", a.dtype(),
                  ") should be convertible without narrowing to the specified dtype (", d, ")");
}

struct MatrixAxes {
  int rows, columns;
};

MatrixAxes check_axes(T a, const Value& dim) {
  check_floating("linalg.matrix_norm", a);
  check_ndim("linalg.matrix_norm", a);
  const Dims& dims = dim.ints();
  if (dims.size() != 2) runtime_error("linalg.matrix_norm: dim must be a 2-tuple. Got ", dims);
  MatrixAxes axes{wrap_dim(dims[0], a.ndim()), wrap_dim(dims[1], a.ndim())};
  if (axes.rows == axes.columns)
    runtime_error("linalg.matrix_norm: dims must be different. Got (", dims[0], ", ", dims[1], ")");
  return axes;
}

// The norm of the singular values of matrices along two axes, by f.
template <class F>
Tensor of_singular_values(T a, MatrixAxes axes, bool keepdim, F f) {
  if (is_half(a.dtype()))
    runtime_error("linalg.matrix_norm: Low precision dtypes not supported. Got ", a.dtype());
  Dims order;
  for (int d = 0; d < a.ndim(); ++d) {
    if (d != axes.rows && d != axes.columns) order.push_back(d);
  }
  order.push_back(axes.rows);
  order.push_back(axes.columns);
  Tensor out = f(op<"linalg_svdvals">(op<"permute">(a, order)).tensor());
  if (!keepdim) return out;
  Tensor wide = op<"unsqueeze">(out, std::min(axes.rows, axes.columns));
  return op<"unsqueeze">(wide, std::max(axes.rows, axes.columns));
}

Tensor extreme(T t, int dim, bool largest, bool keepdim) {
  return largest ? op<"amax">(t, Dims{dim}, keepdim) : op<"amin">(t, Dims{dim}, keepdim);
}

// The largest of no numbers counts as 0; the smallest is not there.
Tensor norm_of_nothing(T a, MatrixAxes axes, bool keepdim, double ord) {
  if (ord < 0)
    index_error("linalg.matrix_norm: order ", ord,
                ": Expected reduction dims to have non-zero size, but the matrices are ",
                a.size(axes.rows), " by ", a.size(axes.columns));
  GradMode off(false);
  return op<"sum">(real_part(a), Dims{axes.rows, axes.columns}, keepdim);
}

Tensor numbered_norm(T given, double ord, const Value& dim, bool keepdim, const Value& dtype) {
  MatrixAxes axes = check_axes(given, dim);
  check_dtype("linalg.matrix_norm", given, dtype);
  const double size = std::fabs(ord);
  if (size != 1 && size != 2 && size != kInfinity)
    runtime_error("linalg.matrix_norm: Order ", ord, " not supported.");
  Tensor a = dtype.is_none() ? given : op<"_to_copy">(given, dtype).tensor();
  if (size == 2 && is_half(a.dtype()))
    runtime_error("linalg.matrix_norm: Low precision dtypes not supported. Got ", a.dtype());
  const bool no_rows = a.size(axes.rows) == 0, no_columns = a.size(axes.columns) == 0;
  if (size == 1 ? no_columns : size == 2 ? no_rows || no_columns : no_rows)
    return norm_of_nothing(a, axes, keepdim, ord);
  if (size == 2)
    return of_singular_values(a, axes, keepdim,
                              [&](T s) { return extreme(s, -1, ord > 0, false); });
  if (size == kInfinity) std::swap(axes.rows, axes.columns);
  Tensor sums = op<"linalg_vector_norm">(a, 1, Dims{axes.rows}, keepdim);
  const int left = axes.columns - (!keepdim && axes.columns > axes.rows);
  return extreme(sums, left, ord > 0, keepdim);
}

Tensor named_norm(T given, const std::string& ord, const Value& dim, bool keepdim,
                  const Value& dtype) {
  check_floating("linalg.matrix_norm", given);
  if (ord != "fro" && ord != "nuc")
    runtime_error("linalg.matrix_norm: Order ", ord, " not supported.");
  MatrixAxes axes = check_axes(given, dim);
  check_dtype("linalg.matrix_norm", given, dtype);
  if (ord == "fro") return op<"linalg_vector_norm">(given, 2, dim, keepdim, dtype);
  Tensor a = dtype.is_none() ? given : op<"_to_copy">(given, dtype).tensor();
  if (is_half(a.dtype()))
    runtime_error("linalg.matrix_norm: Low precision dtypes not supported. Got ", a.dtype());
  return of_singular_values(a, axes, keepdim, [](T s) -> Tensor { return op<"sum">(s, Dims{-1}); });
}

}  // namespace

static const Op& matrix_norm_ =
    def("linalg_matrix_norm(input|A, ord: Scalar, dim: int[] = [-2, -1], keepdim: bool = False, *, "
        "dtype: dtype? = None)",
        "The norm of matrices along two axes: the largest sum of sizes along a column (1) or a row "
        "(inf), or the largest singular value (2); the smallest for -1, -inf and -2.")
        .forward([](Call& c) -> Value {
          return numbered_norm(c.tensor(0), c.real(1), c[2], c.flag(3), c[4]);
        })
        .function_only();
static const Op& matrix_norm_named_ =
    def("linalg_matrix_norm.named(input|A, ord: str = 'fro', dim: int[] = [-2, -1], keepdim: bool "
        "= "
        "False, *, dtype: dtype? = None)",
        "The Frobenius norm ('fro') or the nuclear norm ('nuc': the sum of singular values).")
        .forward([](Call& c) -> Value {
          return named_norm(c.tensor(0), c[1].str(), c[2], c.flag(3), c[4]);
        })
        .function_only();

namespace {

void check_norm(T a, const Value& dim, bool has_ord) {
  if (!dim.is_none() && has_ord) {
    const int n = dim.ints().size();
    if (n != 1 && n != 2)
      runtime_error("linalg.norm: If dim is specified, it must be of length 1 or 2. Got ",
                    dim.ints());
  } else if (!dim.is_none()) {
    const int n = dim.ints().size();
    if (n > 2)
      runtime_error("linalg.norm: If dim is specified, it must be of length 1 or 2. Got ",
                    dim.ints());
  } else if (has_ord && a.ndim() != 1 && a.ndim() != 2) {
    runtime_error(
        "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got ",
        a.ndim(), "D.");
  }
}

Value both_axes(const Value& dim) { return dim.is_none() ? Value(Dims{0, 1}) : dim; }

}  // namespace

static const Op& linalg_norm_ =
    def("linalg_norm(input|A, ord: Scalar? = None, dim: int[]? = None, keepdim: bool = False, *, "
        "dtype: dtype? = None)",
        "The norm of vectors along one axis (of all elements without `dim` and `ord`) or of "
        "matrices along two; see linalg.vector_norm and linalg.matrix_norm.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0);
          const bool has_ord = !c[1].is_none();
          check_norm(a, c[2], has_ord);
          const bool matrix = has_ord && (c[2].is_none() ? a.ndim() == 2 : c.ints(2).size() == 2);
          if (matrix) return op<"linalg_matrix_norm">(a, c[1], both_axes(c[2]), c[3], c[4]);
          return op<"linalg_vector_norm">(a, has_ord ? c[1] : Value(2), c[2], c[3], c[4]);
        })
        .function_only();
static const Op& linalg_norm_named_ =
    def("linalg_norm.named(input|A, ord: str, dim: int[]? = None, keepdim: bool = False, *, dtype: "
        "dtype? = None)",
        "The Frobenius or nuclear norm of matrices; see linalg.matrix_norm.")
        .forward([](Call& c) -> Value {
          check_norm(c.tensor(0), c[2], true);
          return op<"linalg_matrix_norm.named">(c[0], c[1], both_axes(c[2]), c[3], c[4]);
        })
        .function_only();

static const Op& nuclear_norm_ =
    def("nuclear_norm(input, dim: int[]? = None, keepdim: bool = False)",
        "The sum of the singular values of a matrix; linalg.matrix_norm(input, 'nuc').")
        .forward([](Call& c) -> Value {
          return op<"linalg_matrix_norm.named">(c[0], "nuc", both_axes(c[1]), c[2]);
        })
        .function_only();

// --- condition numbers ---------------------------------------------------------------------------
namespace {

Tensor by_inverse(T a, const Value& p) {
  check_square(
      text("linalg.cond(ord=", p.kind() == Value::String ? p.str() : text(p.real()), ")").c_str(),
      a);
  if (a.size(-1) == 0) return op<"sum">(real_part(a), Dims{-2, -1});
  Tensors found = op<"linalg_inv_ex">(a).tensors();
  auto norm = [&](T m) -> Tensor {
    return p.kind() == Value::String ? op<"linalg_matrix_norm.named">(m, p)
                                     : op<"linalg_matrix_norm">(m, p);
  };
  Tensor product = norm(a) * norm(found[0]);
  return op<"where">(op<"eq">(found[1], 0), product, kInfinity);
}

}  // namespace

static const Op& cond_ =
    def("linalg_cond(input|A, p: Scalar? = None)",
        "The condition number: the largest singular value over the smallest (p = None or 2; the "
        "reverse for -2), or `norm(A, p) * norm(inv(A), p)` for p = 1, -1, inf, -inf. It is inf "
        "where A has no inverse.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0);
          check_ndim("linalg.cond", a);
          const double p = c[1].is_none() ? 2 : c.real(1), size = std::fabs(p);
          if (size != 1 && size != 2 && size != kInfinity)
            runtime_error("linalg.cond got an invalid norm type: ", p);
          if (size != 2) return by_inverse(a, c[1]);
          if (a.size(-2) == 0 || a.size(-1) == 0) {
            check_floating("linalg.svd", a);
            GradMode off(false);
            return op<"sum">(real_part(a), Dims{-2, -1});
          }
          Tensor s = op<"linalg_svdvals">(a);
          Tensor first = op<"select">(s, -1, 0), last = op<"select">(s, -1, -1);
          return p > 0 ? first / last : last / first;
        })
        .function_only()
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);
static const Op& cond_named_ =
    def("linalg_cond.named(input|A, p: str)",
        "The condition number in the Frobenius ('fro') or nuclear ('nuc') norm.")
        .forward([](Call& c) -> Value {
          check_ndim("linalg.cond", c.tensor(0));
          if (c[1].str() != "fro" && c[1].str() != "nuc")
            runtime_error("linalg.cond got an invalid norm type: ", c[1].str());
          return by_inverse(c.tensor(0), c[1]);
        })
        .function_only()
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);

}  // namespace adjoint
