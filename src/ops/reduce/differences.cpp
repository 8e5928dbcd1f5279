// Differences of neighbours and sums by the trapezoidal rule, all written from ops: diff,
// trapezoid, cumulative_trapezoid.
#include "dispatch/op.h"
#include "python/interrupt.h"

namespace adjoint {
namespace {

using T = const Tensor&;

Tensor part(T t, int axis, int64_t begin, int64_t end) { return op<"slice">(t, axis, begin, end); }

// t[1:] and t[:-1] along an axis, combined.
template <OpName Name>
Tensor neighbours(T t, int axis) {
  int64_t n = t.size(axis);
  return op<Name>(part(t, axis, std::min<int64_t>(1, n), n),
                  part(t, axis, 0, std::max<int64_t>(n - 1, 0)));
}

Value diff_forward(Call& c) {
  Tensor t = c.tensor(0);
  int64_t n = c.integer(1);
  if (t.ndim() == 0) runtime_error("diff expects input to be at least one-dimensional");
  if (n < 0) runtime_error("order must be non-negative but got ", n);
  int axis = wrap_dim(c.integer(2), t.ndim());
  Tensors pieces;
  for (int i : {3, 0, 4}) {
    if (!c[i].is_none()) pieces.push_back(c.tensor(i));
  }
  for (T piece : pieces) {
    if (piece.ndim() != t.ndim()) {
      runtime_error("diff expects prepend or append to be the same dimension as input, got ",
                    piece.ndim(), " and ", t.ndim());
    }
    for (int d = 0; d < t.ndim(); ++d) {
      if (d == axis || piece.size(d) == t.size(d)) continue;
      runtime_error(
          "diff expects the shape of tensor to prepend or append to match that of input except "
          "along the differencing dimension; input.size(",
          d, ") = ", t.size(d), ", but got tensor.size(", d, ") = ", piece.size(d));
    }
  }
  if (n == 0) return op<"clone">(t);  // without what stands before and behind, as in PyTorch
  if (pieces.size() > 1) t = op<"cat">(std::move(pieces), axis);
  n = std::min(n, t.size(axis));
  if (t.numel() == 0) return op<"clone">(part(t, axis, 0, t.size(axis) - n));
  for (int64_t i = 0; i < n; ++i) {
    check_signals();
    t = t.dtype() == DType::Bool ? neighbours<"logical_xor">(t, axis) : neighbours<"sub">(t, axis);
  }
  return t;
}

// The widths between points, which may be given for all runs at once: as a vector along `axis`.
Tensor widths(T x, T y, int axis, const char* name) {
  if (x.dtype() == DType::Bool || y.dtype() == DType::Bool)
    runtime_error(name, ": received a bool input for `x` or `y`, but bool is not supported");
  if (y.ndim() == 0 || x.ndim() == 0)
    index_error(name, ": points and values need at least one dimension");
  if (x.ndim() != 1) return neighbours<"sub">(x, wrap_dim(axis - y.ndim(), x.ndim()));
  if (x.size(0) != y.size(axis)) {
    runtime_error(name, ": there must be one `x` value for each sample point, got ", x.size(0),
                  " and ", y.size(axis));
  }
  Dims shape(y.ndim(), 1);
  shape[axis] = -1;
  if (x.size(0) < 2) shape[axis] = 0;
  return op<"reshape">(neighbours<"sub">(x, 0), shape);
}

// The areas between neighbouring points.
Tensor areas(Call& c, bool given, int* axis) {
  const char* name = c.op.name.c_str();
  Tensor y = c.tensor(0);
  *axis = wrap_dim(c.integer(2), y.ndim());
  if (given) {
    Tensor dx = widths(c.tensor(1), y, *axis, name);
    return neighbours<"add">(y, *axis) * dx / 2.0;
  }
  if (y.dtype() == DType::Bool)
    runtime_error(name, ": received a bool input for `y`, but bool is not supported");
  return neighbours<"add">(y, *axis) * c[1] / 2.0;
}

template <bool Given>
Value trapezoid_forward(Call& c) {
  int axis = 0;
  Tensor slabs = areas(c, Given, &axis);
  return op<"sum">(slabs, Dims{axis});
}

template <bool Given>
Value cumulative_forward(Call& c) {
  int axis = 0;
  Tensor slabs = areas(c, Given, &axis);
  return op<"cumsum">(slabs, axis);
}

}  // namespace

static const Op& diff_ =
    def("diff(input, n: int = 1, dim: int = -1, prepend: Tensor? = None, append: Tensor? = None)",
        "The n-th differences of neighbours along an axis, of the input with what is put before "
        "and "
        "behind it.")
        .forward(diff_forward)
        .out_dtype(OutDType::Converts);

// Before the overload with a spacing, which would take a tensor of one element for a number.
static const Op& trapezoid_x_ =
    def("trapezoid(y, x, *, dim: int = -1)",
        "The integral along an axis by the trapezoidal rule, with values y at the points x.")
        .forward(trapezoid_forward<true>)
        .alias("trapz")
        .function_only()
        .no_out();
static const Op& trapezoid_dx_ =
    def("trapezoid.dx(y, *, dx: Scalar = 1, dim: int = -1)", "The same with points dx apart.")
        .forward(trapezoid_forward<false>)
        .alias("trapz")
        .function_only()
        .no_out();
static const Op& cumulative_trapezoid_x_ =
    def("cumulative_trapezoid(y, x, *, dim: int = -1)",
        "The running integral along an axis by the trapezoidal rule.")
        .forward(cumulative_forward<true>)
        .function_only()
        .no_out();
static const Op& cumulative_trapezoid_dx_ =
    def("cumulative_trapezoid.dx(y, *, dx: Scalar = 1, dim: int = -1)",
        "The same with points dx apart.")
        .forward(cumulative_forward<false>)
        .function_only()
        .no_out();

}  // namespace adjoint
