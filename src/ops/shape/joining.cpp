// Joining tensors (cat, stack and their like) and repeating one.
#include "dispatch/overlap.h"
#include "dispatch/op.h"
#include "dispatch/view.h"
#include "ops/sparse/rules.h"
#include "python/interrupt.h"
#include "tensor/checked.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

DType common_dtype(const Tensors& ts) {
  ResultType type;
  for (const Tensor& t : ts) type.add(Value(t));
  return type.get();
}

// PyTorch lets an empty 1-d tensor stand anywhere in a list, whatever the shape of the others.
bool is_nothing(T t) { return t.ndim() == 1 && t.size(0) == 0; }

Tensor part_of(T t, int axis, int64_t start, int64_t length) {
  Dims shape(t.shape());
  shape[axis] = length;
  return on_storage(t->storage, shape, t.strides(), t.offset() + start * t.stride(axis), t.dtype());
}

// Like a pair of loops over elements, one contiguous piece after another.
void copy_parts(T out, const Tensors& ts, int axis) {
  int64_t at = 0;
  for (const Tensor& t : ts) {
    if (is_nothing(t) && out.ndim() != 1) continue;
    int64_t n = t.size(axis);
    if (t.numel()) copy_into(part_of(out, axis, at, n), t);
    at += n;
  }
}

Value cat_forward(Call& c) {
  const Tensors& ts = c.tensors(0);
  if (ts.empty()) value_error("torch.cat(): expected a non-empty list of Tensors");
  Tensor model;
  for (size_t i = 0; i < ts.size(); ++i) {
    if (ts[i].ndim() == 0)
      runtime_error("zero-dimensional tensor (at position ", i, ") cannot be concatenated");
    if (!model && !is_nothing(ts[i])) model = ts[i];
  }
  if (!model) model = ts[0];
  int axis = wrap_dim(c.integer(1), model.ndim());
  Dims shape(model.shape()), sizes;
  shape[axis] = 0;
  for (size_t i = 0; i < ts.size(); ++i) {
    T t = ts[i];
    if (is_nothing(t) && model.ndim() != 1) {
      sizes.push_back(-1);
      continue;
    }
    if (t.ndim() != model.ndim()) {
      runtime_error("Tensors must have same number of dimensions: got ", model.ndim(), " and ",
                    t.ndim());
    }
    for (int k = 0; k < t.ndim(); ++k) {
      if (k != axis && t.size(k) != model.size(k)) {
        runtime_error("Sizes of tensors must match except in dimension ", axis, ". Expected size ",
                      model.size(k), " but got size ", t.size(k), " for tensor number ", i,
                      " in the list.");
      }
    }
    shape[axis] = checked_add(shape[axis], t.size(axis));
    sizes.push_back(t.size(axis));
  }
  Tensor out = empty(shape, common_dtype(ts));
  copy_parts(out, ts, axis);
  c.kept = sizes;
  return out;
}

void cat_vjp(C c, Tensor* grads) {
  Tensor g = c.grad();
  Dims sizes = c.kept().ints();
  int axis = wrap_dim(c.in(1).integer(), g.ndim());
  int64_t at = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) {
      grads[i] = zeros(Dims{0}, g.dtype());
      continue;
    }
    grads[i] = op<"slice">(g, axis, at, at + sizes[i]);
    at += sizes[i];
  }
}

Value stack_forward(Call& c) {
  const Tensors& ts = c.tensors(0);
  if (ts.empty()) runtime_error("stack expects a non-empty TensorList");
  int axis = wrap_dim(c.integer(1), ts[0].ndim() + 1);
  for (size_t i = 1; i < ts.size(); ++i) {
    if (!(ts[i].shape() == ts[0].shape())) {
      runtime_error("stack expects each tensor to be equal size, but got ", ts[0].shape(),
                    " at entry 0 and ", ts[i].shape(), " at entry ", i);
    }
  }
  Dims shape(ts[0].shape());
  shape.insert(axis, static_cast<int64_t>(ts.size()));
  Tensor out = empty(shape, common_dtype(ts));
  Dims strides(out.strides());
  int64_t step = strides[axis];
  strides.erase(axis);
  for (size_t i = 0; i < ts.size(); ++i) {
    copy_into(on_storage(out->storage, ts[0].shape(), strides, static_cast<int64_t>(i) * step,
                         out.dtype()),
              ts[i]);
  }
  c.kept = static_cast<int64_t>(ts.size());
  return out;
}

void stack_vjp(C c, Tensor* grads) {
  Tensor g = c.grad();
  int axis = wrap_dim(c.in(1).integer(), g.ndim());
  for (int64_t i = 0; i < c.kept().integer(); ++i) grads[i] = op<"select">(g, axis, i);
}

Value repeat_forward(Call& c) {
  Tensor t = c.tensor(0);
  const Dims& repeats = c.ints(1);
  if (repeats.size() < t.ndim()) {
    runtime_error(
        "Number of dimensions of repeat dims can not be smaller than number of "
        "dimensions of tensor (",
        repeats.size(), " < ", t.ndim(), ")");
  }
  // The result as pairs of axes (repeat, size). Without those of length one there are never more
  // of them than a tensor has, since each doubles the number of elements.
  Dims shape(repeats.size()), parts, strides;
  for (int i = 0; i < repeats.size(); ++i) {
    int at = i - (repeats.size() - t.ndim());
    if (repeats[i] < 0)
      runtime_error("Trying to create tensor with negative dimension ", repeats[i], ": ", repeats);
    shape[i] = checked_mul(repeats[i], at < 0 ? 1 : t.size(at));
    if (repeats[i] != 1) {
      parts.push_back(repeats[i]);
      strides.push_back(0);
    }
    if (at >= 0 && t.size(at) != 1) {
      parts.push_back(t.size(at));
      strides.push_back(t.stride(at));
    }
  }
  Tensor out = empty(shape, t.dtype());
  if (out.numel() == 0) return out;
  copy_into(on_storage(out->storage, parts, contiguous_strides(parts), 0, t.dtype()),
            on_storage(t->storage, parts, strides, t.offset(), t.dtype()));
  return out;
}

Tensor repeat_grad(T given, C c) {
  Tensor g = given;
  Dims repeats = c.in(1).ints();
  Span shape = c.shape(0);
  for (int64_t r : repeats) {
    if (r == 0) return zeros(shape, g.dtype());
  }
  // As in forward: pairs (repeat, size) of which those of length one are left out.
  Dims parts, axes;
  for (int i = 0; i < repeats.size(); ++i) {
    int at = i - (repeats.size() - shape.n);
    if (repeats[i] != 1) {
      axes.push_back(parts.size());
      parts.push_back(repeats[i]);
    }
    if (at >= 0 && shape[at] != 1) parts.push_back(shape[at]);
  }
  if (!axes.empty()) g = op<"sum">(op<"reshape">(g, parts), axes);
  return g.shape() == shape ? g : op<"reshape">(g, shape).tensor();
}

Tensor at_least(T t, int ndim) {
  if (t.ndim() >= ndim) return t;
  if (t.ndim() == 0) return op<"reshape">(t, Dims(ndim, 1));
  if (t.ndim() == 1 && ndim == 2) return op<"unsqueeze">(t, 0);
  if (t.ndim() == 1) return op<"unsqueeze">(op<"unsqueeze">(t, 0), -1);
  return op<"unsqueeze">(t, -1);
}

Value all_at_least(const Tensors& ts, int ndim) {
  Tensors out;
  for (const Tensor& t : ts) out.push_back(at_least(t, ndim));
  return out;
}

void not_empty(const Tensors& ts, const char* name) {
  if (ts.empty()) runtime_error(name, " expects a non-empty TensorList");
}

}  // namespace

namespace {

// Lists: every tensor batched already. `cat` passes over samples of shape [0] among others.
template <int Extra>
Value joined(Call& c, const int*) {
  int ndim = 0;
  for (const Tensor& t : c.tensors(0)) ndim = std::max(ndim, t.ndim() - 1);
  if (Extra == 0 && ndim > 1) {
    Tensors joining;
    for (const Tensor& t : c.tensors(0)) {
      if (t.ndim() != 2 || t.size(1) != 0) joining.push_back(t);
    }
    c.args[0] = Value(std::move(joining));
  }
  c.args[1] = wrap_dim(c.integer(1), ndim + Extra) + 1;
  return apply(c.op, c.args);
}

}  // namespace

static const Op& cat_ =
    def("cat(tensors: Tensor[], dim: int = 0)", "Tensors one behind the other along an axis.")
        .forward(cat_forward)
        .vjp(nothing, cat_vjp)
        .linear()
        .rearranges()
        .function_only()
        .alias("concat")
        .alias("concatenate")
        .batch(joined<0>)
        .depends(Depends::Moved)
        .parts([](const Placing& p) -> Tensor {
          int axis = wrap_dim(p.args[1].integer(), p.whole.ndim());
          int64_t size = p.operand.size(axis);
          p.at += size;
          return op<"narrow">(p.whole, axis, p.at - size, size);
        })
        .out_dtype(OutDType::ConvertsElseTypeError)
        .autocast(Autocast::Widest)
        .sparse(sparse::cat)
        .any_dtype()
        .out_apart();

static const Op& stack_ =
    def("stack(tensors: Tensor[], dim: int = 0)", "Tensors of one shape along a new axis.")
        .forward(stack_forward)
        .vjp(nothing, stack_vjp)
        .linear()
        .rearranges()
        .function_only()
        .batch(joined<1>)
        .depends(Depends::Moved)
        .parts([](const Placing& p) -> Tensor { return op<"select">(p.whole, p.args[1], p.item); })
        .out_dtype(OutDType::ConvertsElseTypeError)
        .autocast(Autocast::Widest)
        .sparse(sparse::stack)
        .any_dtype()
        .out_apart();

static const Op& hstack_ =
    def("hstack(tensors: Tensor[])",
        "Tensors side by side: along the second axis, vectors along the first.")
        .forward([](Call& c) -> Value {
          not_empty(c.tensors(0), "hstack");
          Value ts = all_at_least(c.tensors(0), 1);
          return op<"cat">(ts, ts.tensors()[0].ndim() == 1 ? 0 : 1);
        })
        .function_only()
        .out_dtype(OutDType::ConvertsElseTypeError)
        .out_apart();

static const Op& vstack_ =
    def("vstack(tensors: Tensor[])", "Tensors on top of each other; vectors count as rows.")
        .forward([](Call& c) -> Value {
          not_empty(c.tensors(0), "vstack");
          return op<"cat">(all_at_least(c.tensors(0), 2), 0);
        })
        .function_only()
        .alias("row_stack")
        .out_dtype(OutDType::ConvertsElseTypeError)
        .out_apart();

static const Op& dstack_ =
    def("dstack(tensors: Tensor[])", "Tensors behind each other along the third axis.")
        .forward([](Call& c) -> Value {
          not_empty(c.tensors(0), "dstack");
          return op<"cat">(all_at_least(c.tensors(0), 3), 2);
        })
        .function_only()
        .out_dtype(OutDType::ConvertsElseTypeError)
        .out_apart();

static const Op& column_stack_ =
    def("column_stack(tensors: Tensor[])", "Tensors side by side; vectors count as columns.")
        .forward([](Call& c) -> Value {
          not_empty(c.tensors(0), "column_stack");
          Tensors ts;
          for (const Tensor& t : c.tensors(0))
            ts.push_back(t.ndim() <= 1 ? op<"reshape">(t, Dims{t.numel(), 1}).tensor() : t);
          return op<"cat">(std::move(ts), 1);
        })
        .function_only()
        .out_dtype(OutDType::ConvertsElseTypeError)
        .out_apart();

static const Op& repeat_ =
    def("repeat(input, repeats: int[*])", "The tensor as a tile, so often along each axis.")
        .forward(repeat_forward)
        .grad(0, nothing, repeat_grad)
        .linear()
        .method_only()
        .no_out()
        .batch([](Call& c, const int*) -> Value {
          Dims repeats = c.ints(1);
          Tensor t = batch::line_up(c.tensor(0), repeats.size());
          repeats.insert(0, 1);
          return op<"repeat">(t, repeats);
        })
        .any_dtype();

static const Op& tile_ =
    def("tile(input, dims: int[*])", "The tensor as a tile; axes that `dims` lacks are kept.")
        .forward([](Call& c) -> Value {
          Dims repeats = c.ints(1);
          while (repeats.size() < c.tensor(0).ndim()) repeats.insert(0, 1);
          return op<"repeat">(c[0], repeats);
        })
        .no_out();

namespace {

void check_output_size(const Value& promised, int64_t size) {
  if (promised.is_none() || promised.integer() == size) return;
  runtime_error("repeat_interleave: Invalid output_size, expected ", size, " but got ",
                promised.integer());
}

// 0 repeats[0] times, 1 repeats[1] times and so on up to n; one number counts for all.
Tensor repeated_positions(T repeats, int64_t n, const Value& promised) {
  Tensor counts = contiguous(cast(repeats, DType::Int64));
  const int64_t* count = counts.data<int64_t>();
  bool single = counts.numel() == 1;
  int64_t total = 0;
  for (int64_t i = 0; i < counts.numel(); ++i) {
    if (count[i] < 0) runtime_error("repeats can not be negative, got ", count[i]);
    total = checked_add(total, single ? checked_mul(count[i], n) : count[i]);
  }
  check_output_size(promised, total);
  Tensor index = empty(Dims{total}, DType::Int64);
  int64_t* at = index.data<int64_t>();
  NowAndThen signals;
  for (int64_t i = 0; i < n && total > 0; ++i) {
    signals.check(1 + count[single ? 0 : i]);
    at = std::fill_n(at, count[single ? 0 : i], i);
  }
  return index;
}

}  // namespace

static const Op& repeat_interleave_ =
    def("repeat_interleave(input, repeats: int, dim: int? = None, *, output_size: int? = None)",
        "Each element so often in a row, along an axis or of the flattened tensor.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          int64_t n = c.integer(1);
          if (n < 0) runtime_error("repeats has to be non-negative, got ", n);
          if (c[2].is_none() || t.ndim() == 0) t = op<"reshape">(t, Dims{-1});
          int axis = c[2].is_none() ? 0 : wrap_dim(c.integer(2), t.ndim());
          int64_t total;
          if (__builtin_mul_overflow(t.size(axis), n, &total))
            runtime_error("repeats are too large");
          check_output_size(c[3], total);
          Dims spread(t.shape());
          spread.insert(axis + 1, n);
          Tensor wide = op<"expand">(op<"unsqueeze">(t, axis + 1), spread);
          return op<"flatten">(op<"clone">(wide), axis, axis + 1);
        })
        .no_out()
        .any_dtype();

static const Op& repeat_interleave_each_ =
    def("repeat_interleave.each(input, repeats: Tensor, dim: int? = None, *, output_size: int? = "
        "None)",
        "Each index of an axis as often as `repeats` says.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), repeats = c.tensor(1);
          if (repeats.ndim() > 1) runtime_error("repeats must be 0-dim or 1-dim tensor");
          if (repeats.dtype() != DType::Int64 && repeats.dtype() != DType::Int32)
            runtime_error("repeats has to be Long or Int tensor");
          if (c[2].is_none() || t.ndim() == 0) t = op<"reshape">(t, Dims{-1});
          int axis = c[2].is_none() ? 0 : wrap_dim(c.integer(2), t.ndim());
          if (repeats.numel() != 1 && repeats.numel() != t.size(axis)) {
            runtime_error(
                "repeats must have the same size as input along dim, but got repeats.size(0) = ",
                repeats.numel(), " and input.size(", axis, ") = ", t.size(axis));
          }
          return op<"index_select">(t, axis, repeated_positions(repeats, t.size(axis), c[3]));
        })
        .no_out()
        .batch(batch::each_sample)
        .by_values()
        .any_dtype();

static const Op& repeat_interleave_positions_ =
    def("repeat_interleave.positions(repeats, *, output_size: int? = None)",
        "The position of each element of `repeats`, as often as the element says.")
        .forward([](Call& c) -> Value {
          Tensor repeats = c.tensor(0);
          if (repeats.ndim() != 1) {
            runtime_error("repeat_interleave only accept 1D vector as repeat, got shape ",
                          repeats.shape());
          }
          if (repeats.dtype() != DType::Int64 && repeats.dtype() != DType::Int32) {
            not_implemented("\"repeat_interleave_cpu\" not implemented for '", repeats.dtype(),
                            "'; use repeats.long()");
          }
          Tensor index = repeated_positions(repeats, repeats.numel(), c[1]);
          return cast(index, repeats.dtype());
        })
        .function_only()
        .no_out()
        .batch(batch::each_sample);

// --- shapes made alike ---------------------------------------------------------------------------
static const Op& broadcast_tensors_ =
    def("broadcast_tensors(tensors: Tensor[*])",
        "Views of all tensors in their common shape; one that has it is returned as it is.")
        .forward([](Call& c) -> Value {
          Dims shape;
          for (const Tensor& t : c.tensors(0)) shape = broadcast_shapes(shape, t.shape());
          Tensors out;
          for (const Tensor& t : c.tensors(0)) {
            bool fits = t.shape() == Span(shape);
            out.push_back(fits ? t : op<"expand">(t, shape).tensor());
          }
          return out;
        })
        .function_only()
        .no_out();

static const Op& atleast_1d_ =
    def("atleast_1d(input)", "A 0-d tensor as a vector.")
        .forward([](Call& c) -> Value { return at_least(c.tensor(0), 1); })
        .function_only()
        .no_out();
static const Op& atleast_2d_ =
    def("atleast_2d(input)", "A tensor of fewer axes as a matrix.")
        .forward([](Call& c) -> Value { return at_least(c.tensor(0), 2); })
        .function_only()
        .no_out();
static const Op& atleast_3d_ =
    def("atleast_3d(input)", "A tensor of fewer axes with three of them.")
        .forward([](Call& c) -> Value { return at_least(c.tensor(0), 3); })
        .function_only()
        .no_out();
static const Op& atleast_1d_all_ =
    def("atleast_1d.all(tensors: Tensor[*])", "The same for each of several tensors.")
        .forward([](Call& c) { return all_at_least(c.tensors(0), 1); })
        .function_only()
        .no_out();
static const Op& atleast_2d_all_ =
    def("atleast_2d.all(tensors: Tensor[*])", "The same for each of several tensors.")
        .forward([](Call& c) { return all_at_least(c.tensors(0), 2); })
        .function_only()
        .no_out();
static const Op& atleast_3d_all_ =
    def("atleast_3d.all(tensors: Tensor[*])", "The same for each of several tensors.")
        .forward([](Call& c) { return all_at_least(c.tensors(0), 3); })
        .function_only()
        .no_out();

static const Op& block_diag_ =
    def("block_diag(tensors: Tensor[*])",
        "A matrix of zeros with the given matrices on its diagonal.")
        .forward([](Call& c) -> Value {
          const Tensors& ts = c.tensors(0);
          int64_t rows = ts.empty(), columns = 0;  // of nothing, PyTorch makes (1, 0)
          Dims geometry;
          for (const Tensor& t : ts) {
            if (t.ndim() > 2) {
              runtime_error("torch.block_diag: Input tensors must have 2 or fewer dimensions. Got ",
                            t.ndim(), " dimensions");
            }
            geometry.push_back(t.ndim() == 2 ? t.size(0) : 1);
            geometry.push_back(t.ndim() ? t.size(t.ndim() - 1) : 1);
            rows = checked_add(rows, geometry[geometry.size() - 2]);
            columns = checked_add(columns, geometry.back());
          }
          Tensor out = zeros(Dims{rows, columns}, ts.empty() ? default_dtype() : common_dtype(ts));
          int64_t row = 0, column = 0;
          for (size_t i = 0; i < ts.size(); ++i) {
            int k = static_cast<int>(2 * i);
            Tensor to = part_of(part_of(out, 0, row, geometry[k]), 1, column, geometry[k + 1]);
            Tensor seen = ts[i].ndim() == 2 ? ts[i] : Tensor();
            if (!seen) {
              seen = on_storage(ts[i]->storage, Dims{1, geometry[k + 1]},
                                Dims{0, ts[i].ndim() ? ts[i].stride(0) : 1}, ts[i].offset(),
                                ts[i].dtype());
            }
            copy_into(to, seen);
            row += geometry[k];
            column += geometry[k + 1];
          }
          for (const Tensor& t : ts) geometry.push_back(t.ndim());
          c.kept = geometry;
          return out;
        })
        .vjp(nothing,
             [](C c, Tensor* grads) {
               Tensor g = c.grad();
               Dims geometry = c.kept().ints();
               int n = geometry.size() / 3;
               int64_t row = 0, column = 0;
               for (int i = 0; i < n; ++i) {
                 int64_t r = geometry[2 * i], w = geometry[2 * i + 1];
                 Tensor part = op<"slice">(op<"slice">(g, 0, row, row + r), 1, column, column + w);
                 int64_t ndim = geometry[2 * n + i];
                 if (ndim < 2) part = op<"select">(part, 0, 0);
                 if (ndim < 1) part = op<"select">(part, 0, 0);
                 grads[i] = part;
                 row += r;
                 column += w;
               }
             })
        .linear()
        .function_only()
        .no_out()
        .depends(Depends::Moved)
        .any_dtype();

}  // namespace adjoint
