// Distances between rows. Read ops/reduce/statistics.cpp first, which has norms.
#include <functional>

#include "dispatch/op.h"
#include "dispatch/elementwise_forward.h"
#include "ops/reduce/reduce_forward.h"
#include "parallel/pool.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

const double kInfinity = __builtin_inf();
constexpr int64_t kGrain = 16384;  // elements worth handing to a thread

// --- cdist --------------------------------------------------------------------------------------
void check_points(T x, T y, double p, const Value& mode) {
  for (T t : {std::cref(x), std::cref(y)}) {
    if (is_complex(t.dtype()) || is_integral(t.dtype()))
      runtime_error("cdist only supports floating-point dtypes, got ", t.dtype());
    if (is_half(t.dtype())) not_implemented("\"cdist\" not implemented for '", t.dtype(), "'");
    if (t.ndim() < 2)
      runtime_error("cdist only supports at least 2D tensors, got: ", t.ndim(), "D");
  }
  if (x.size(-1) != y.size(-1)) {
    runtime_error("X1 and X2 must have the same number of columns. X1: ", x.size(-1),
                  " X2: ", y.size(-1));
  }
  if (x.dtype() != y.dtype())
    runtime_error("cdist: both sets must have one dtype, got ", x.dtype(), " and ", y.dtype());
  if (!(p >= 0)) runtime_error("cdist only supports non-negative p values, got ", p);
  bool known = mode.is_none() || mode.str() == "use_mm_for_euclid_dist_if_necessary" ||
               mode.str() == "use_mm_for_euclid_dist" ||
               mode.str() == "donot_use_mm_for_euclid_dist";
  if (!known) value_error(mode.str(), " is not a valid value for compute_mode");
}

// [..., P, M] and [..., R, M] with the leading axes broadcast: what is common to both.
Dims leading(T x, T y) {
  return broadcast_shapes({x->shape, x.ndim() - 2}, {y->shape, y.ndim() - 2});
}

Tensor with_leading(T t, Dims lead) {
  lead.push_back(t.size(-2));
  lead.push_back(t.size(-1));
  return op<"expand">(t, lead);
}

// Two sets of points for the loops of kernels/isa/distances.cpp: the second coordinate by coordinate.
struct PointSets {
  Tensor x, y;
  int64_t rows, columns, coordinates, batch;
  PointSets(T x_full, T y_full)
      : x(contiguous(x_full)),
        y(contiguous(op<"transpose">(y_full, -2, -1))),
        rows(x.size(-2)),
        columns(y.size(-1)),
        coordinates(x.size(-1)),
        batch(x.numel() / (rows * coordinates)) {}
  char* point(int64_t i) const { return x.bytes() + i * coordinates * x.itemsize(); }
  char* others(int64_t b) const { return y.bytes() + b * coordinates * columns * y.itemsize(); }
};

void euclidean_distances(const PointSets& s, T out) {
  static const Kernel& kernel = kernel_named("euclid_row");
  const Loop loop = kernel.loop[static_cast<int>(out.dtype())];
  const int64_t cost = s.columns * s.coordinates;
  WithoutGil release(s.batch * s.rows * cost >= kReleaseGil);
  parallel::parallel_ranges(
      s.batch * s.rows, std::max<int64_t>(1, kGrain / cost), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          char* row = out.bytes() + i * s.columns * out.itemsize();
          int64_t n = s.coordinates;
          char* p[] = {row, s.point(i), s.others(i / s.rows), reinterpret_cast<char*>(&n)};
          loop(p, s.columns);
        }
      });
}

// The gradients for both sets of points at once, [..., P, M] and [..., R, M].
Tensors euclidean_gradients(T g_given, T x_given, T y_given, T dist_given) {
  GradMode off(false);
  static const Kernel& kernel = kernel_named("euclid_row_grad");
  Dims shape = leading(x_given, y_given);
  Tensor x_full = with_leading(x_given, shape), y_full = with_leading(y_given, shape);
  PointSets s(x_full, y_full);
  Tensor g = contiguous(g_given), dist = contiguous(dist_given);
  Tensor to_x = empty(x_full.shape(), g.dtype()), sums = zeros(s.y.shape(), DType::Float64);
  Tensor weights = empty(Dims{s.columns}, DType::Float64);
  const Loop loop = kernel.loop[static_cast<int>(g.dtype())];
  for (int64_t i = 0; i < s.batch * s.rows; ++i) {
    const int64_t b = i / s.rows, row = i * s.columns * g.itemsize();
    int64_t n = s.coordinates;
    char* p[] = {to_x.bytes() + i * n * to_x.itemsize(),
                 sums.bytes() + b * n * s.columns * sums.itemsize(),
                 s.point(i),
                 s.others(b),
                 g.bytes() + row,
                 dist.bytes() + row,
                 weights.bytes(),
                 reinterpret_cast<char*>(&n)};
    loop(p, s.columns);
  }
  return {to_x, contiguous(cast(op<"transpose">(sums, -2, -1), g.dtype()))};
}

// Row by row: the differences of one row with all others stay in the cache, and no product is
// formed whose digits cancel.
Tensor distances(T x_given, T y_given, double p) {
  GradMode off(false);
  Dims shape = leading(x_given, y_given);
  Tensor x = with_leading(x_given, shape), y = with_leading(y_given, shape);
  int64_t rows = x.size(-2);
  shape.push_back(rows);
  shape.push_back(y.size(-2));
  if (p == 2 && x.numel() && y.numel()) {
    Tensor out = empty(shape, x.dtype());
    return euclidean_distances(PointSets(x, y), out), out;
  }
  Tensor out = zeros(shape, x.dtype());
  if (out.numel() == 0 || x.size(-1) == 0) return out;
  for (int64_t i = 0; i < rows; ++i) {
    Tensor row = op<"slice">(x, -2, i, i + 1);
    copy_into(op<"select">(out, -2, i), op<"linalg_vector_norm">(y - row, p, Dims{-1}));
  }
  return out;
}

// What each distance gains with each coordinate of x: [..., P, R, M]. Where points meet, nothing.
Tensor slopes(T x, T y, T dist, double p) {
  Tensor none = op<"eq">(dist, 0);
  Tensor d = op<"unsqueeze">(x, -2).tensor() - op<"unsqueeze">(y, -3).tensor();
  Tensor size = op<"abs">(d), part = op<"sgn">(d);
  Tensor length = op<"unsqueeze">(op<"where">(none, 1.0, dist), -1);
  if (p == kInfinity) return part * op<"eq">(size, op<"unsqueeze">(dist, -1)).tensor();
  if (p == 1) return part;
  if (p == 2) return d / length;
  Tensor still = op<"eq">(size, 0);
  Tensor ratio = op<"where">(still, 1.0, size).tensor() / length;
  return part * op<"where">(still, 0.0, op<"pow">(ratio, p - 1)).tensor();
}

// The gradient for the points x; `other` says which: those of y have the transposed distances.
Tensor distance_grad(T g_given, C c, bool other) {
  Tensor x = c.tensor(other ? 1 : 0), y = c.tensor(other ? 0 : 1), dist = c.out(), g = g_given;
  double p = c.in(2).real();
  if (other) g = op<"transpose">(g, -2, -1), dist = op<"transpose">(dist, -2, -1);
  if (p == 0 || dist.numel() == 0) return op<"mul">(x, 0.0);
  Tensor none = op<"eq">(dist, 0);
  if (p == 2) {
    // sum_j w_ij (x_i - y_j) as a product, without the differences of all pairs.
    Tensor w = op<"where">(none, 0.0, g / op<"where">(none, 1.0, dist).tensor());
    return x * op<"sum">(w, Dims{-1}, true).tensor() - op<"matmul">(w, y).tensor();
  }
  return op<"sum">(slopes(x, y, dist, p) * op<"unsqueeze">(g, -1).tensor(), Dims{-2});
}

// Both at once where nothing is recorded and no tensor is a dual or a batch; a matrix product is
// better for many points.
constexpr int64_t kMostPairs = 1 << 18;

bool plain(T t) { return !(t->flags & kTransformed); }

void distance_grads(C c, Tensor* grads) {
  Tensor g = c.grad(), x = c.in(0), y = c.in(1), dist = c.out();
  if (c.in(2).real() == 2 && dist.numel() && dist.numel() <= kMostPairs && x.numel() &&
      !grad_enabled() && plain(g) && plain(x) && plain(y)) {
    Tensors both = op<"_euclid_grads">(g, x, y, dist).tensors();
    grads[0] = both[0], grads[1] = both[1];
    return;
  }
  if (c.needs(0)) grads[0] = distance_grad(g, c, false);
  if (c.needs(1)) grads[1] = distance_grad(g, c, true);
}

Value distance_tangent(C c, const Tensor* t) {
  Tensor x = c.in(0), y = c.in(1), dist = c.out();
  double p = c.in(2).real();
  if (p == 0 || dist.numel() == 0) return op<"mul">(dist, 0.0);
  auto rows = [](T v) -> Tensor { return op<"unsqueeze">(v, -2); };
  auto columns = [](T v) -> Tensor { return op<"unsqueeze">(v, -3); };
  Tensor moved = t[0] && t[1] ? rows(t[0]) - columns(t[1]) : t[0] ? rows(t[0]) : -columns(t[1]);
  return op<"sum">(slopes(x, y, dist, p) * moved, Dims{-1});
}

}  // namespace

static const Op& cdist_ =
    def("cdist(x1, x2, p: float = 2.0, compute_mode: str? = None)",
        "The p-norms of the differences of all rows of x1 with all rows of x2. They are computed "
        "directly in every compute_mode. Where points coincide the gradient is 0.")
        .forward([](Call& c) -> Value {
          check_points(c.tensor(0), c.tensor(1), c.real(2), c[3]);
          return distances(c.tensor(0), c.tensor(1), c.real(2));
        })
        .vjp(input(0) | input(1) | output(), distance_grads)
        .jvp(distance_tangent)
        .function_only()
        .no_out()
        .batch(batch::pointwise)
        .depends(Depends::Distances)
        .autocast(Autocast::Float32);

static const Op& euclid_grads_ =
    def("_euclid_grads(g, x1, x2, distances)", "The gradients of cdist with p = 2 for both sets.")
        .forward([](Call& c) -> Value {
          return euclidean_gradients(c.tensor(0), c.tensor(1), c.tensor(2), c.tensor(3));
        })
        .results({"x1", "x2"})
        .internal()
        .batch(batch::each_sample);

}  // namespace adjoint
