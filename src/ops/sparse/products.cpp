// Products of sparse and dense matrices. `_sparse_product` and `_sparse_sample` work on the parts of a
// sparse matrix and are each other's derivatives, to any order; `_sparse_matmul` multiplies two
// sparse matrices. Read parts.h first, kernels/sparse/products.h for the loops.
#include "kernels/sparse/products.h"

#include "kernels/sparse/patterns.h"
#include "ops/sparse/parts.h"
#include "ops/sparse/rules.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint::sparse {
namespace {

using C = Context&;

Pattern pattern(T start, T column, int64_t rows, int64_t columns) {
  return {start.data<int64_t>(), column.data<int64_t>(), rows, columns};
}

// The dtype that products are computed in.
DType working_dtype(DType d) {
  if (has_products(d)) return d;
  if (is_half(d)) return DType::Float32;
  if (d == DType::Bool) not_implemented("products of sparse matrices are not for dtype bool");
  return DType::Int64;
}
Tensor prepared(T t) { return contiguous(cast(t, working_dtype(t.dtype()))); }
bool is_long(T start, int64_t width) {
  return start.data<int64_t>()[start.numel() - 1] * std::max<int64_t>(width, 1) >= kReleaseGil;
}

// start, column, values, dense, rows, columns, transposed
Value product_forward(Call& c) {
  Tensor start = c.tensor(0), column = contiguous(c.tensor(1)), values = prepared(c.tensor(2)),
         dense = prepared(c.tensor(3));
  const int64_t rows = c.integer(4), columns = c.integer(5), width = dense.size(1);
  const bool transpose = c.flag(6);
  const Dims shape{transpose ? columns : rows, width};
  Tensor out = transpose ? zeros(shape, values.dtype()) : empty(shape, values.dtype());
  Rows r{pattern(start, column, rows, columns)};
  r.values = values.bytes();
  r.dense = dense.bytes();
  r.out = out.bytes();
  r.width = width;
  {
    WithoutGil release(is_long(start, width));
    if (width) (transpose ? transposed : multiply)(values.dtype(), r);
  }
  return cast(out, c.tensor(3).dtype());
}

// start, column, a, b
Value sample_forward(Call& c) {
  Tensor start = c.tensor(0), column = contiguous(c.tensor(1)), a = prepared(c.tensor(2)),
         b = prepared(c.tensor(3));
  Tensor values = empty(column.shape(), a.dtype());
  Rows r{pattern(start, column, start.numel() - 1, b.size(0))};
  r.values = values.bytes();
  r.other = a.bytes();
  r.dense = b.bytes();
  r.width = a.size(1);
  {
    WithoutGil release(is_long(start, r.width));
    sample(a.dtype(), r);
  }
  return cast(values, c.tensor(2).dtype());
}

// Samples of the dense side stand next to one another: one product.
Value product_rule(Call& c, const int* axes) {
  if (axes[0] >= 0 || axes[1] >= 0 || axes[2] >= 0) return batch::each_sample(c, axes);
  Tensor dense = c.tensor(3);
  const int64_t n = dense.size(0), width = dense.size(2);
  Tensor side = op<"reshape">(op<"transpose">(dense, 0, 1), Dims{dense.size(1), n * width});
  Tensor out = op<"_sparse_product">(c[0], c[1], c[2], side, c[4], c[5], c[6]);
  return op<"transpose">(op<"view">(out, Dims{out.size(0), n, width}).tensor(), 0, 1);
}

Tensor conj(T t) { return is_complex(t.dtype()) ? op<"conj_physical">(t).tensor() : t; }

}  // namespace

static const Op& product_ =
    def("_sparse_product(start, column, values, dense, rows: int, columns: int, transposed: bool)",
        "The product of a sparse matrix, by rows, or of its transpose, and a dense one.")
        .forward(product_forward)
        .grad(2, input(0) | input(1) | input(3),
              [](T g, C c) -> Tensor {
                Tensor d = conj(c.tensor(3));
                return c.in(6).boolean() ? op<"_sparse_sample">(c.in(0), c.in(1), d, g)
                                         : op<"_sparse_sample">(c.in(0), c.in(1), g, d);
              })
        .grad(3, input(0) | input(1) | input(2),
              [](T g, C c) -> Tensor {
                return op<"_sparse_product">(c.in(0), c.in(1), conj(c.tensor(2)), g, c.in(4),
                                             c.in(5), !c.in(6).boolean());
              })
        .jvp([](C c, const Tensor* t) -> Value {
          auto part = [&](const Value& values, const Value& dense) -> Tensor {
            return op<"_sparse_product">(c.in(0), c.in(1), values, dense, c.in(4), c.in(5),
                                         c.in(6));
          };
          if (!t[3]) return part(t[2], c.in(3));
          Tensor by_dense = part(c.in(2), t[3]);
          return t[2] ? part(t[2], c.in(3)) + by_dense : by_dense;
        })
        .batch(product_rule)
        .internal()
        .node("SparseAddmmBackward0");

static const Op& sample_ = def("_sparse_sample(start, column, a, b)",
                               "The elements of `a @ b.T` at the places of a sparse matrix.")
                               .forward(sample_forward)
                               .grad(2, input(0) | input(1) | input(3),
                                     [](T g, C c) -> Tensor {
                                       Tensor b = conj(c.tensor(3));
                                       return op<"_sparse_product">(
                                           c.in(0), c.in(1), g, b, c.shape(2)[0], b.size(0), false);
                                     })
                               .grad(3, input(0) | input(1) | input(2),
                                     [](T g, C c) -> Tensor {
                                       Tensor a = conj(c.tensor(2));
                                       return op<"_sparse_product">(c.in(0), c.in(1), g, a,
                                                                    a.size(0), c.shape(3)[0], true);
                                     })
                               .jvp([](C c, const Tensor* t) -> Value {
                                 auto part = [&](const Value& a, const Value& b) -> Tensor {
                                   return op<"_sparse_sample">(c.in(0), c.in(1), a, b);
                                 };
                                 if (!t[3]) return part(t[2], c.in(3));
                                 Tensor by_b = part(c.in(2), t[3]);
                                 return t[2] ? part(t[2], c.in(3)) + by_b : by_b;
                               })
                               .batch(batch::each_sample)
                               .internal();

namespace {

// Rows of entries, in order: what products of two sparse matrices read.
Tensor in_rows(T s) { return to_layout(s, Layout::Csr); }
Tensor masked(T x, T mask) { return with_values(mask, entries_at(x, mask)); }
Tensor adjoint_of(T s) { return conj(op<"transpose">(s, 0, 1).tensor()); }

Value two_sparse(Call& c) {
  Tensor a = c.tensor(0), b = c.tensor(1);
  const SparseParts &p = parts_of(a), &q = parts_of(b);
  Pattern left = pattern(p.indices, p.plain, a.size(0), a.size(1)),
          right = pattern(q.indices, q.plain, b.size(0), b.size(1));
  std::vector<int64_t> start, column;
  product_pattern(left, right, start, column);
  Tensor starts = int64s(static_cast<int64_t>(start.size())),
         columns = int64s(static_cast<int64_t>(column.size()));
  std::copy(start.begin(), start.end(), starts.data<int64_t>());
  std::copy(column.begin(), column.end(), columns.data<int64_t>());
  Tensor x = prepared(p.values), y = prepared(q.values);
  Tensor values = empty(columns.shape(), x.dtype());
  product_values(x.dtype(), left, x.bytes(), right, y.bytes(),
                 pattern(starts, columns, a.size(0), b.size(1)), values.bytes());
  return sparse_tensor({Layout::Csr, true, starts, columns, cast(values, a.dtype())},
                       Dims{a.size(0), b.size(1)});
}

}  // namespace

static const Op& matmul_ =
    def("_sparse_matmul(a, b)", "The product of two sparse matrices in rows.")
        .forward(two_sparse)
        .grad(0, input(0) | input(1),
              [](T g, C c) -> Tensor {
                return masked(op<"matmul">(g, adjoint_of(c.tensor(1))), c.tensor(0));
              })
        .grad(1, input(0) | input(1),
              [](T g, C c) -> Tensor {
                return masked(op<"matmul">(adjoint_of(c.tensor(0)), g), c.tensor(1));
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor a = t[0] ? op<"_sparse_matmul">(in_rows(t[0]), c.in(1)).tensor() : Tensor();
          Tensor b = t[1] ? op<"_sparse_matmul">(c.in(0), in_rows(t[1])).tensor() : Tensor();
          return a && b ? a + b : a ? a : b;
        })
        .batch(batch::each_sample)
        .internal()
        .takes_sparse()
        .node("SparseSparseMatmulBackward0");

static const Op& sampled_addmm_ =
    def("_sampled_addmm(input, mat1, mat2, beta: Scalar, alpha: Scalar)",
        "`beta * input + alpha * (mat1 @ mat2)` at the places of `input`.")
        .forward([](Call& c) -> Value {
          Tensor s = c.tensor(0), a = c.tensor(1), b = c.tensor(2);
          if (!is_sparse(s) || parts_of(s).sparse_axes() != 2 || s.ndim() != 2 || is_sparse(a) ||
              is_sparse(b) || a.ndim() != 2 || b.ndim() != 2)
            not_implemented("sampled_addmm: expected a sparse matrix and two dense ones");
          if (a.dtype() != s.dtype() || b.dtype() != s.dtype())
            runtime_error("sampled_addmm: Expected mat1 and mat2 to have the dtype of input, ",
                          s.dtype(), ", but got ", a.dtype(), " and ", b.dtype());
          if (a.size(0) != s.size(0) || b.size(1) != s.size(1) || a.size(1) != b.size(0))
            runtime_error("sampled_addmm: shapes do not fit: input ", s.shape(), ", mat1 ",
                          a.shape(), ", mat2 ", b.shape());
          s = coalesced(s);
          ByRows m = by_rows(s);
          Tensor bt = op<"transpose">(b, 0, 1);
          Tensor values = m.is_transpose ? op<"_sparse_sample">(m.start, m.column, bt, a)
                                         : op<"_sparse_sample">(m.start, m.column, a, bt);
          if (c[4].complex() != 1.0) values = values * c[4];
          if (c[3].complex() != 0.0) {
            Tensor own = entries(s);
            values = values + (c[3].complex() == 1.0 ? own : own * c[3]);
          }
          return with_values(s, values);
        })
        .function_only()
        .takes_sparse();

// --- what matmul and its like do with sparse operands -----------------------------------------------
namespace {

void check_factors(const char* name, T a, T b) {
  if (a.dtype() != b.dtype())
    runtime_error(name, ": expected both operands to have the same dtype, but got: ", a.dtype(),
                  " != ", b.dtype());
  const int64_t inner = a.size(-1), rows = b.size(0);
  if (inner != rows)
    runtime_error("mat1 and mat2 shapes cannot be multiplied (", a.shape(), " and ", b.shape(),
                  ")");
}
bool is_matrix(T t) { return is_sparse(t) && t.ndim() == 2 && parts_of(t).sparse_axes() == 2; }

Tensor sparse_times(T given, T dense, bool transposed) {
  Tensor s = coalesced(given);
  ByRows m = by_rows(s);
  return op<"_sparse_product">(m.start, m.column, entries(s), dense, m.rows, m.columns,
                               m.is_transpose != transposed);
}

// Null: operands that do not go together.
Tensor multiplied(T a, T b) {
  if (is_matrix(a) && is_matrix(b)) {
    Tensor out = op<"_sparse_matmul">(in_rows(a), in_rows(b));
    return to_layout(out, parts_of(a).layout == Layout::Coo ? Layout::Coo : Layout::Csr);
  }
  if (is_matrix(a) && !is_sparse(b)) {
    if (b.ndim() == 2) return sparse_times(a, b, false);
    if (b.ndim() == 1) return op<"squeeze.dim">(sparse_times(a, op<"unsqueeze">(b, 1), false), 1);
  }
  if (is_matrix(b) && !is_sparse(a)) {
    if (a.ndim() == 1) return op<"squeeze.dim">(sparse_times(b, op<"unsqueeze">(a, 1), true), 1);
    if (a.ndim() == 2) {
      Tensor out = sparse_times(b, op<"transpose">(a, 0, 1), true);
      return op<"contiguous">(op<"transpose">(out, 0, 1));
    }
  }
  return {};
}

}  // namespace

Value matmul(const Op& op, Value* args) {
  Tensor a = args[0].tensor(), b = args[1].tensor();
  if (a.ndim() == 0 || b.ndim() == 0 || a.ndim() > 2 || b.ndim() > 2) refuse_sparse(op, args);
  check_factors(op.name.c_str(), a, b);
  Tensor out = multiplied(a, b);
  if (!out) refuse_sparse(op, args);
  return out;
}

Value addmm(const Op& op, Value* args) {
  Tensor input = args[0].tensor();
  if (is_sparse(input)) refuse_sparse(op, args);
  Value factors[2] = {args[1], args[2]};
  Tensor a = args[1].tensor(), b = args[2].tensor();
  check_factors(op.name.c_str(), a, b);
  Tensor out = multiplied(a, b);
  if (!out || is_sparse(out)) refuse_sparse(op, args);
  if (args[4].complex() != 1.0) out = out * args[4];
  if (args[3].complex() == 0.0) return out;
  if (input.dtype() != out.dtype())
    runtime_error(op.name, ": expected input to have the dtype of the matrices, ", out.dtype(),
                  ", but it has ", input.dtype());
  return out + (args[3].complex() == 1.0 ? input : input * args[3]);
}

Value linear(const Op& op, Value* args) {
  Tensor x = args[0].tensor(), w = args[1].tensor();
  if (is_sparse(x) || !is_matrix(w) || x.ndim() == 0) refuse_sparse(op, args);
  Tensor flat = x.ndim() <= 2 ? x : adjoint::op<"reshape">(x, Dims{-1, x.size(-1)}).tensor();
  Tensor out = adjoint::op<"matmul">(flat, adjoint::op<"transpose">(w, 0, 1));
  if (x.ndim() > 2) {
    Dims shape = shape_of(x);
    shape.back() = w.size(0);
    out = adjoint::op<"view">(out, shape);
  }
  return args[2].is_none() ? out : out + args[2].tensor();
}

}  // namespace adjoint::sparse
