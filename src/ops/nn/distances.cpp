// Distances and angles between vectors that lie side by side: along one axis, or between the rows
// of one matrix. Written from ops; see ops/linalg/distance.cpp for those between two sets.
#include "dispatch/op.h"
#include "tensor/promote.h"

namespace adjoint {
namespace {

using T = const Tensor&;

Tensor length_along(T x, int64_t dim, double eps) {
  return op<"clamp_min">(op<"linalg_vector_norm">(x, 2.0, Dims{dim}, true), eps);
}

}  // namespace

static const Op& pairwise_distance_ =
    def("pairwise_distance(x1, x2, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False)",
        "The p-norm of x1 - x2 + eps along the last axis.")
        .forward([](Call& c) -> Value {
          Tensor difference = c.tensor(0) - c.tensor(1) + c.real(3);
          Dims last;
          if (difference.ndim()) last.push_back(-1);
          return op<"linalg_vector_norm">(difference, c.real(2), last, c.flag(4));
        })
        .function_only()
        .no_out();

static const Op& cosine_similarity_ =
    def("cosine_similarity(x1, x2, dim: int = 1, eps: float = 1e-08)",
        "The cosine of the angle between x1 and x2 along `dim`; norms below `eps` count as `eps`.")
        .forward([](Call& c) -> Value {
          ResultType type;
          type.add(c[0]);
          type.add(c[1]);
          const DType d = type.get();
          if (!is_floating(d)) {
            runtime_error("expected common dtype to be floating point, yet common dtype is ", d,
                          ": convert with .float()");
          }
          Dims shape = broadcast_shapes(c.tensor(0).shape(), c.tensor(1).shape());
          const int64_t dim = wrap_dim(c.integer(2), shape.size());
          auto prepared = [&](T x) -> Tensor {
            return op<"expand">(x.dtype() == d ? x : op<"_to_copy">(x, d).tensor(), shape);
          };
          Tensor a = prepared(c.tensor(0)), b = prepared(c.tensor(1));
          a = a / length_along(a, dim, c.real(3));
          b = b / length_along(b, dim, c.real(3));
          return op<"sum">(a * b, Dims{dim});
        })
        .function_only()
        .no_out();

static const Op& pdist_ =
    def("pdist(input, p: float = 2.0)",
        "The p-norms of the differences of all pairs of rows i < j, row by row.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0);
          const double p = c.real(1);
          if (x.ndim() != 2) runtime_error("pdist only supports 2D tensors, got: ", x.ndim(), "D");
          if (!is_floating(x.dtype()))
            runtime_error("pdist only supports floating-point dtypes, got ", x.dtype());
          if (is_half(x.dtype()))
            not_implemented("\"pdist\" not implemented for '", x.dtype(), "'");
          if (!(p >= 0)) runtime_error("pdist only supports non-negative p values, got ", p);
          Tensor pairs = op<"triu_indices">(x.size(0), x.size(0), 1);
          Tensors at{op<"select">(pairs, 0, 0), op<"select">(pairs, 0, 1)};
          return op<"index">(op<"cdist">(x, x, p), Value(at));
        })
        .function_only()
        .no_out();

}  // namespace adjoint
