// Products of several matrices in the cheapest order, products along an axis, and systems of tensors.
// All written from ops. Read matrices.h first.
#include <limits>

#include "ops/linalg/matrices.h"
#include "tensor/checked.h"

namespace adjoint {
namespace {

using namespace matrices;

// --- multi_dot -----------------------------------------------------------------------------------
// The classic table: the cheapest way to multiply matrices i ... j, by where they are cut.
class Order {
 public:
  explicit Order(const Tensors& all) : n_(all.size()), cut_(n_ * n_), cost_(n_ * n_) {
    std::vector<double> p;
    for (T t : all) p.push_back(double(t.size(0)));
    p.push_back(double(all.back().size(1)));
    for (size_t length = 1; length < n_; ++length) {
      for (size_t i = 0; i + length < n_; ++i) {
        const size_t j = i + length;
        double best = std::numeric_limits<double>::infinity();
        for (size_t k = i; k < j; ++k) {
          const double cost = at(i, k) + at(k + 1, j) + p[i] * p[k + 1] * p[j + 1];
          if (cost < best) best = cost, cut_[i * n_ + j] = k;
        }
        cost_[i * n_ + j] = best;
      }
    }
  }
  Tensor product(const Tensors& all, size_t i, size_t j) const {
    if (i == j) return all[i];
    const size_t k = cut_[i * n_ + j];
    return mul(product(all, i, k), product(all, k + 1, j));
  }

 private:
  double at(size_t i, size_t j) const { return cost_[i * n_ + j]; }
  size_t n_;
  std::vector<size_t> cut_;
  std::vector<double> cost_;
};

Tensor multi_dot(const Tensors& given) {
  const size_t n = given.size();
  if (n < 2) runtime_error("multi_dot(): expected at least 2 tensors but got ", n);
  Tensors all = given;
  const bool row_first = all[0].ndim() == 1, column_last = all[n - 1].ndim() == 1;
  if (all[0].ndim() != 1 && all[0].ndim() != 2)
    runtime_error("multi_dot(): the first tensor must be 1D or 2D but got ", all[0].ndim(), "D");
  if (all[n - 1].ndim() != 1 && all[n - 1].ndim() != 2)
    runtime_error("multi_dot(): the last tensor must be 1D or 2D but got ", all[n - 1].ndim(), "D");
  for (size_t i = 1; i + 1 < n; ++i) {
    if (all[i].ndim() != 2)
      runtime_error("multi_dot(): tensor ", i, " must be 2D but got ", all[i].ndim(), "D");
  }
  if (row_first) all[0] = op<"unsqueeze">(all[0], 0);
  if (column_last) all[n - 1] = column(all[n - 1]);
  for (size_t i = 0; i + 1 < n; ++i) {
    if (all[i].dtype() != all[i + 1].dtype())
      runtime_error("multi_dot(): all tensors must have be the same dtype but tensor 0 is ",
                    all[0].dtype(), " and tensor ", i + 1, " ", all[i + 1].dtype());
    if (all[i].size(1) != all[i + 1].size(0))
      runtime_error("multi_dot(): tensors ", i, " and ", i + 1, " with shapes ", given[i].shape(),
                    " and ", given[i + 1].shape(), " cannot be multiplied");
  }
  Tensor out = Order(all).product(all, 0, n - 1);
  if (column_last) out = op<"squeeze.dim">(out, -1);
  return row_first ? op<"squeeze.dim">(out, 0).tensor() : out;
}

}  // namespace

static const Op& multi_dot_ =
    def("linalg_multi_dot(tensors: Tensor[])",
        "The product of two or more matrices (the first and the last may be vectors), in the order "
        "that costs least.")
        .forward([](Call& c) -> Value { return multi_dot(c.tensors(0)); })
        .function_only()
        .autocast(Autocast::Inside);

static const Op& chain_matmul_ =
    def("chain_matmul(matrices: Tensor[*])",
        "The product of matrices, in the order that costs least; see linalg.multi_dot.")
        .forward([](Call& c) -> Value {
          for (T t : c.tensors(0)) {
            if (t.ndim() != 2)
              runtime_error("Tensor dimension is ", t.ndim(), ", expected 2 instead.");
          }
          if (c.tensors(0).empty()) runtime_error("chain_matmul(): Expected one or more matrices");
          if (c.tensors(0).size() == 1) return c.tensors(0)[0];
          return multi_dot(c.tensors(0));
        })
        .function_only()
        .no_out()
        .autocast(Autocast::Inside);

// --- along an axis -------------------------------------------------------------------------------
static const Op& vecdot_ =
    def("linalg_vecdot(x, y, *, dim: int = -1)",
        "The dot products of vectors along an axis, the first conjugated.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0), y = c.tensor(1);
          check_floating("linalg.vecdot", x);
          if (x.dtype() != y.dtype())
            runtime_error(
                "linalg.vecdot: Expected x and y to have the same dtype, but found x of "
                "type ",
                x.dtype(), " and y of type ", y.dtype(), " instead");
          if (x.ndim() == 1 && y.ndim() == 1) return op<"vdot">(x, y);
          return op<"sum">(conjugate(x) * y, Dims{c.integer(2)});
        })
        .function_only()
        .autocast(Autocast::Lower);

static const Op& linalg_cross_ =
    def("linalg_cross(input, other, *, dim: int = -1)",
        "The vector product along an axis of length 3.")
        .forward([](Call& c) -> Value { return op<"cross">(c[0], c[1], c[2]); })
        .function_only();

static const Op& linalg_vander_ =
    def("linalg_vander(x, *, N: int? = None)",
        "The powers 0 ... N - 1 of the elements, along a new last axis; N is the length of the "
        "last "
        "axis by default.")
        .forward([](Call& c) -> Value {
          Tensor x = c.tensor(0);
          if (is_half(x.dtype()) || x.dtype() == DType::Bool)
            runtime_error(
                "linalg.vander supports floating point, complex, and integer tensors, but "
                "got ",
                x.dtype());
          if (x.ndim() == 0 && c[1].is_none()) runtime_error("N must be greater than 1.");
          const int64_t n = c[1].is_none() ? x.size(-1) : c.integer(1);
          if (n <= 1) runtime_error("N must be greater than 1.");
          if (x.ndim() == 0) x = op<"reshape">(x, Dims{1});
          Tensor wide = is_integral(x.dtype()) ? op<"_to_copy">(x, DType::Int64).tensor() : x;
          Tensor one = column(op<"ones_like">(wide));
          Dims shape(wide.shape());
          shape.push_back(n - 1);
          Tensor powers = op<"cumprod">(op<"expand">(column(wide), shape), -1);
          return op<"cat">(Tensors{one, powers}, -1);
        })
        .function_only()
        .no_out();

// --- systems of tensors --------------------------------------------------------------------------
namespace {

int64_t product_of(Span shape, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; ++i) n = checked_mul(n, shape[i]);
  return n;
}

}  // namespace

static const Op& tensorinv_ =
    def("linalg_tensorinv(input|A, ind: int = 2)",
        "The inverse of a tensor as a map between tensors: `tensordot(inverse, A @ x)` is x, where "
        "the last axes of A, from `ind` on, meet x.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0);
          const int64_t ind = c.integer(1);
          if (ind <= 0)
            runtime_error("Expected a strictly positive integer for 'ind', but got ", ind);
          const int cut = static_cast<int>(std::min<int64_t>(ind, a.ndim()));
          const int64_t rows = product_of(a.shape(), 0, cut);
          const int64_t columns = product_of(a.shape(), cut, a.ndim());
          if (rows != columns)
            runtime_error(
                "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
                "prod(self.shape[:ind]), but got ",
                columns, " != ", rows);
          Dims shape = Span{a->shape + cut, a.ndim() - cut};
          for (int i = 0; i < cut; ++i) shape.push_back(a->shape[i]);
          return op<"reshape">(op<"linalg_inv">(op<"reshape">(a, Dims{rows, columns})), shape);
        })
        .function_only()
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);

static const Op& tensorsolve_ =
    def("linalg_tensorsolve(input|A, other|B, dims: int[]? = None)",
        "The tensor x with `tensordot(A, x, x.ndim) == other`; `dims` are axes of A that are moved "
        "to the end first.")
        .forward([](Call& c) -> Value {
          Tensor a = c.tensor(0), b = c.tensor(1);
          if (!c[2].is_none()) {
            Dims to;
            const int n = c.ints(2).size();
            for (int i = 0; i < n; ++i) to.push_back(a.ndim() - n + i);
            a = op<"movedim">(a, c[2], to);
          }
          const int cut = std::min(b.ndim(), a.ndim());
          const int64_t rows = product_of(a.shape(), 0, cut);
          const int64_t columns = product_of(a.shape(), cut, a.ndim());
          if (rows != columns)
            runtime_error(
                "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) "
                "== prod(self.shape[:other.ndim]), but got ",
                columns, " != ", rows);
          Tensor x = op<"linalg_solve">(op<"reshape">(a, Dims{rows, columns}),
                                        op<"reshape">(b, Dims{b.numel()}));
          return op<"reshape">(x, Span{a->shape + cut, a.ndim() - cut});
        })
        .function_only()
        .autocast(Autocast::Float32)
        .out_dtype(OutDType::Converts);

}  // namespace adjoint
