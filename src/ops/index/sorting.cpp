// sort, argsort, topk, kthvalue, and searching in what is sorted.
#include "dispatch/overlap.h"
#include "kernels/index/sorting.h"

#include "dispatch/op.h"
#include "ops/index/picking.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// The tensor with `dim` moved last, or back from there. Records nothing.
Tensor moved(T t, int from, int to) {
  if (from == to || t.ndim() < 2) return t;
  Dims shape(t.shape()), strides(t.strides());
  int64_t n = shape[from], s = strides[from];
  shape.erase(from);
  strides.erase(from);
  shape.insert(to, n);
  strides.insert(to, s);
  return on_storage(t->storage, shape, strides, t.offset(), t.dtype());
}

void require_order(T t, const char* name) {
  if (is_complex(t.dtype())) {
    runtime_error(name, ": complex numbers have no order (got ", t.dtype(), ")");
  }
}

// Of two truth values there is nothing to search or rank.
void require_numbers(T t, const char* name) {
  if (t.dtype() == DType::Bool) not_implemented("\"", name, "\" not implemented for 'bool'");
}

// The first `keep` of every run along `dim` in order, and where they stood.
Tensors sorted(T t, int64_t dim_given, int64_t keep, bool descending, const char* name) {
  require_order(t, name);
  int dim = wrap_dim(dim_given, t.ndim()), last = std::max(t.ndim() - 1, 0);
  Tensor rows = contiguous(moved(t, dim, last));
  int64_t n = t.ndim() ? t.size(dim) : 1;
  Dims shape(rows.shape());
  if (t.ndim()) shape[last] = keep;
  Tensor values = empty(shape, t.dtype()), positions = empty(shape, DType::Int64);
  if (values.numel()) {
    const char* in = rows->data;
    char* out = values->data;
    int64_t* at = positions.data<int64_t>();
    DType d = t.dtype();
    int64_t count = rows.numel() / n;
    WithoutGil release(rows.numel() >= 2048);
    sort_rows(in, out, at, d, count, n, keep, descending);
  }
  if (dim == last) return {values, positions};
  Tensor v = moved(values, last, dim), p = moved(positions, last, dim);
  Tensor dense_v = empty(v.shape(), v.dtype()), dense_p = empty(p.shape(), p.dtype());
  copy_into(dense_v, v);
  copy_into(dense_p, p);
  return {dense_v, dense_p};
}

}  // namespace

Tensors picked_along(T t, int axis, Pick pick, int64_t k) {
  Tensor rows = contiguous(moved(t, axis, std::max(t.ndim() - 1, 0)));
  Dims shape(t.shape());
  if (t.ndim()) shape[axis] = 1;
  // An axis of one element may stand anywhere: these lie as the rows do.
  Tensor values = empty(shape, t.dtype()), positions = empty(shape, DType::Int64);
  if (values.numel()) {
    const int64_t n = t.ndim() ? t.size(axis) : 1;
    int64_t* at = positions.data<int64_t>();
    WithoutGil release(rows.numel() >= 2048);
    select_rows(rows->data, values->data, at, t.dtype(), values.numel(), n, pick, k);
  }
  return {values, positions};
}

namespace {

// Values were taken from positions along `dim`: their gradients go back there.
Tensor back_to_positions(C c, int64_t dim, const Value& positions) {
  Tensor g = c.grad(0);
  return op<"scatter">(zeros(c.shape(0), g.dtype()), dim, positions, g);
}

}  // namespace

static const Op& sort_ =
    def("sort(input, dim: int = -1, descending: bool = False, *, stable: bool? = None)",
        "The elements in order along `dim`, and where they stood. Equal elements keep their order.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          int64_t n = t.ndim() ? t.size(wrap_dim(c.integer(1), t.ndim())) : 1;
          return sorted(t, c.integer(1), n, c.flag(2), "sort");
        })
        .vjp(output(1),
             [](Context& c, Tensor* grads) {
               grads[0] = back_to_positions(c, c.in(1).integer(), c.out(1));
             })
        .jvp([](C c, const Tensor* t) -> Value { return op<"gather">(t[0], c.in(1), c.out(1)); })
        .results({"values", "indices"})
        .batch(batch::along)
        .depends(Depends::Along)
        .any_dtype();

static const Op& msort_ =
    def("msort(input)", "The elements in order along the first axis.")
        .forward([](Call& c) -> Value { return op<"sort">(c.tensor(0), 0).tensors()[0]; });

static const Op& argsort_ =
    def("argsort(input, dim: int = -1, descending: bool = False, *, stable: bool = False)",
        "The positions that put the elements in order along `dim`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          int64_t n = t.ndim() ? t.size(wrap_dim(c.integer(1), t.ndim())) : 1;
          return sorted(t, c.integer(1), n, c.flag(2), "argsort")[1];
        })
        .batch(batch::along)
        .any_dtype();

static const Op& topk_ =
    def("topk(input, k: int, dim: int = -1, largest: bool = True, sorted: bool = True)",
        "The k largest (or smallest) elements along `dim`, and where they stood.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          require_numbers(t, "topk");
          int64_t n = t.ndim() ? t.size(wrap_dim(c.integer(2), t.ndim())) : 1, k = c.integer(1);
          if (k < 0 || k > n) {
            runtime_error("selected index k out of range: k is ", k, ", the axis has ", n);
          }
          if (t.ndim() == 0) k = 1;  // its result has no axis that could be empty
          return sorted(t, c.integer(2), k, c.flag(3), "topk");
        })
        .vjp(output(1),
             [](Context& c, Tensor* grads) {
               grads[0] = back_to_positions(c, c.in(2).integer(), c.out(1));
             })
        .jvp([](C c, const Tensor* t) -> Value { return op<"gather">(t[0], c.in(2), c.out(1)); })
        .results({"values", "indices"})
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& kthvalue_ =
    def("kthvalue(input, k: int, dim: int = -1, keepdim: bool = False)",
        "The k-th smallest element along `dim`, counted from 1, and where it stood.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          require_numbers(t, "kthvalue");
          int dim = wrap_dim(c.integer(2), t.ndim());
          int64_t n = t.ndim() ? t.size(dim) : 1, k = c.integer(1);
          if (k < 1 || k > n) {
            runtime_error("kthvalue(): selected number k out of range for dimension ", dim,
                          ": k is ", k, ", the axis has ", n);
          }
          require_order(t, "kthvalue");
          Tensors r = picked_along(t, dim, Pick::Rank, k - 1);
          if (c.flag(3) || t.ndim() == 0) return r;
          for (Tensor& x : r) {
            Dims shape(x.shape());
            shape.erase(dim);
            x = on_storage(x->storage, shape, contiguous_strides(shape), 0, x.dtype());
          }
          return r;
        })
        .vjp(output(1),
             [](Context& c, Tensor* grads) {
               Tensor g = c.grad(0), positions = c.out(1);
               Span shape = c.shape(0);
               if (!c.in(3).boolean() && shape.n) {
                 int dim = wrap_dim(c.in(2).integer(), shape.n);
                 g = op<"unsqueeze">(g, dim);
                 positions = op<"unsqueeze">(positions, dim);
               }
               grads[0] = op<"scatter">(zeros(shape, g.dtype()), c.in(2), positions, g);
             })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor index = c.out(1);
          bool kept = c.in(3).boolean() || t[0].ndim() == 0;
          if (kept) return op<"gather">(t[0], c.in(2), index);
          int axis = wrap_dim(c.in(2).integer(), t[0].ndim());
          Tensor taken = op<"gather">(t[0], axis, op<"unsqueeze">(index, axis));
          return op<"squeeze.dim">(taken, axis);
        })
        .results({"values", "indices"})
        .batch(batch::along)
        .depends(Depends::Along)
        .out_apart();

// --- searching ----------------------------------------------------------------------------------
namespace {

// left and right of the `side` and `right` arguments.
bool side_of(const Value& right, const Value& side) {
  if (side.is_none()) return right.boolean();
  if (side.str() != "left" && side.str() != "right") {
    runtime_error("side can only be 'left' or 'right' but got ", side.str());
  }
  if (side.str() == "left" && right.boolean()) {
    runtime_error(
        "side and right can't be set to opposites, got side of left while right was True");
  }
  return side.str() == "right";
}

Tensor search(T sequence, const Tensor& values_given, bool right, T sorter, bool int32) {
  require_order(sequence, "searchsorted");
  require_numbers(sequence, "searchsorted");
  Tensor values = values_given;
  bool rows = sequence.ndim() != 1;
  if (sequence.ndim() == 0) {
    runtime_error("searchsorted: the sorted sequence must have at least one axis");
  }
  if (rows) {
    bool fits = values.ndim() == sequence.ndim();
    for (int d = 0; fits && d + 1 < values.ndim(); ++d) fits = values.size(d) == sequence.size(d);
    if (!fits) {
      runtime_error(
          "searchsorted: boundaries tensor should be 1 dimension or the first N-1 "
          "dimensions of boundaries tensor and input value tensor must match, but we got "
          "boundaries tensor ",
          sequence.shape(), " and input value tensor ", values.shape());
    }
  }
  DType d = promote_types(sequence.dtype(), values.dtype());
  Tensor s = contiguous(cast(sequence, d)), v = contiguous(cast(values, d));
  Tensor order = sorter ? contiguous(cast(sorter, DType::Int64)) : Tensor();
  if (sorter && !(sorter.shape() == sequence.shape())) {
    runtime_error("searchsorted: sorter and boundaries must have the same shape, but got ",
                  sorter.shape(), " and ", sequence.shape());
  }
  int64_t n = s.size(-1);
  for (int64_t i = 0; order && i < order.numel(); ++i) {
    int64_t k = order.data<int64_t>()[i];
    if (k < 0 || k >= n) runtime_error("searchsorted: sorter index ", k, " is out of range");
  }
  Tensor out = empty(values.shape(), DType::Int64);
  int64_t count = rows ? v.size(-1) : v.numel();
  int64_t runs = count ? v.numel() / count : 0;
  for (int64_t r = 0; r < runs; ++r) {
    int64_t at = rows ? r * n : 0;
    search_sorted(s->data + at * s.itemsize(), order ? order.data<int64_t>() + at : nullptr, n,
                  v->data + r * count * v.itemsize(), count, d, right,
                  out.data<int64_t>() + r * count);
  }
  return int32 ? cast(out, DType::Int32) : out;
}

void require_same(T sequence, T values) {
  if (sequence.dtype() == values.dtype()) return;
  runtime_error(
      "torch.searchsorted(): boundary tensor and input value tensor should have same dtype, but "
      "got boundary tensor dtype ",
      sequence.dtype(), " and input value tensor dtype ", values.dtype());
}

Tensor number_like(const Value& number, T sequence) {
  return scalar_tensor(number, promote_types(scalar_dtype(number), sequence.dtype()));
}

}  // namespace

static const Op& searchsorted_ =
    def("searchsorted(sorted_sequence, input|self: Operand, *, out_int32: bool = False, right: "
        "bool = "
        "False, side: str? = None, sorter: Tensor? = None)",
        "Where values belong in sorted rows: everything before is smaller (right: not greater).")
        .forward([](Call& c) -> Value {
          Tensor sequence = c.tensor(0);
          if (c[1].is_tensor()) require_same(sequence, c.tensor(1));
          Tensor values = c[1].is_tensor() ? c.tensor(1) : number_like(c[1], sequence);
          return search(sequence, values, side_of(c[3], c[4]), c.tensor(5), c.flag(2));
        })
        .function_only()
        .batch(batch::each_sample);

static const Op& bucketize_ =
    def("bucketize(input: Operand, boundaries, *, out_int32: bool = False, right: bool = False)",
        "The bucket between sorted boundaries that each value falls into.")
        .forward([](Call& c) -> Value {
          Tensor boundaries = c.tensor(1);
          if (boundaries.ndim() != 1) {
            runtime_error("boundaries tensor must be 1 dimension, but got dim(", boundaries.ndim(),
                          ")");
          }
          if (c[0].is_tensor()) require_same(boundaries, c.tensor(0));
          Tensor values = c[0].is_tensor() ? c.tensor(0) : number_like(c[0], boundaries);
          return search(boundaries, values, c.flag(3), Tensor(), c.flag(2));
        })
        .function_only()
        .batch(batch::each_sample);

}  // namespace adjoint
