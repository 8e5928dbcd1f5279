// gather, scatter and their like: one index per element along one axis.
// Read offsets.h first.
#include <limits>

#include "dispatch/overlap.h"
#include "dispatch/program_recorder.h"
#include "dispatch/scalar_range.h"
#include "ops/index/offsets.h"
#include "transforms/batch_rules.h"
#include "transforms/tangents.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

Tensor zeros_of(C c, T g) { return zeros(c.shape(0), g.dtype()); }

// The part of `src` that `index` covers, dense; refuses a source that is smaller.
Tensor covered(T src, T index, T self, int dim) {
  int n = index.ndim();
  bool fits = std::max(src.ndim(), 1) == std::max(n, 1);
  for (int d = 0; fits && d < std::min(n, src.ndim()); ++d) fits = index.size(d) <= src.size(d);
  if (!fits) {
    runtime_error("Expected index ", index.shape(), " to be no larger than self ", self.shape(),
                  " apart from dimension ", dim, " and to be no larger size than src ",
                  src.shape());
  }
  Dims strides(src.strides());
  strides.resize(n);
  if (src.ndim() == 0 && n == 1) strides[0] = 1;
  return contiguous(on_storage(src->storage, index.shape(), strides, src.offset(), src.dtype()));
}

Reduce reduce_named(const std::string& name) {
  if (name == "add" || name == "sum" || name == "mean") return Reduce::Add;
  if (name == "multiply" || name == "prod") return Reduce::Multiply;
  if (name == "amax") return Reduce::Max;
  if (name == "amin") return Reduce::Min;
  runtime_error("reduce argument must be one of sum, prod, mean, amax, amin, got ", name);
}

// What the scatters change: the input itself in place, else a copy, row-major as PyTorch's.
Tensor row_major(Call& c) {
  if (c.out) return changeable(c);
  Tensor to = empty(c.tensor(0).shape(), c.tensor(0).dtype());
  copy_into(to, c.tensor(0));
  return to;
}

void scatter_into(T to, int64_t dim_given, T index, T src, Reduce how, const char* name) {
  int dim = wrap_dim(dim_given, to.ndim());
  if (index.numel() == 0) return;
  if (src.dtype() != to.dtype()) {
    runtime_error(name, "(): Expected self.dtype to be equal to src.dtype, got ", to.dtype(),
                  " and ", src.dtype());
  }
  Places places = plan_gather(to, dim, index, name);
  write_places(to, apart(covered(src, index, to, dim), to), places, how);
}

// scatter with a number: the same value at every place.
void scatter_number(T to, int64_t dim_given, T index, const Value& value, Reduce how) {
  int dim = wrap_dim(dim_given, to.ndim());
  if (index.numel() == 0) return;
  require_fits(value, to.dtype());
  write_places(to, scalar_tensor(value, to.dtype()), plan_gather(to, dim, index, "scatter"), how);
}

Reduce old_reduce(const std::string& name) {
  if (name != "add" && name != "multiply") {
    runtime_error("reduce argument must be either add or multiply, got ", name);
  }
  return reduce_named(name);
}

Tensor no_gradient(T, C) {
  runtime_error(
      "the derivative of scatter with reduce is not implemented: use scatter_add for sums and "
      "scatter_reduce for the rest, which are differentiable");
}

Tensor clear_places(T g, C c) { return op<"scatter.value">(g, c.in(1), c.in(2), 0); }
Tensor gather_source(T g, C c) {
  // A source may be larger than the index; what lies beyond it took no part.
  Tensor taken = op<"gather">(g, c.in(1), c.in(2));
  Span shape = c.shape(3);
  if (taken.shape() == shape) return taken;
  Tensor whole = zeros(shape, g.dtype());
  for (int d = taken.ndim() - 1; d > 0; --d) {
    if (taken.size(d) == shape[d]) continue;
    Dims wider(taken.shape());
    wider[d] = shape[d];
    taken = op<"slice_scatter">(zeros(wider, g.dtype()), taken, d, 0, taken.size(d));
  }
  if (shape.n == 0) return op<"reshape">(taken, shape);
  return op<"slice_scatter">(whole, taken, 0, 0, taken.size(0));
}

}  // namespace

static const Op& gather_ =
    def("gather(input, dim: int, index, *, sparse_grad: bool = False)",
        "out[i][j] = input[index[i][j]][j] for dim = 0, and so on for other axes.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), index = c.tensor(2);
          int dim = wrap_dim(c.integer(1), t.ndim());
          return read_places(t, plan_gather(t, dim, index, "gather"), index.shape());
        })
        .grad(0, input(2),
              [](T g, C c) -> Tensor {
                return op<"scatter_add">(zeros_of(c, g), c.in(1), c.in(2), g);
              })
        .linear()
        .batch(batch::along)
        .depends(Depends::Moved)
        .any_dtype()
        .out_apart();

static const Op& scatter_reduce_word_ =
    def("scatter.reduce(input, dim: int, index, src, *, reduce: str)",
        "A copy of `input` in which `src` is added to, or multiplied with, the places of `index`.")
        .forward([](Call& c) -> Value {
          Reduce how = old_reduce(c[4].str());
          Tensor to = row_major(c);
          scatter_into(to, c.integer(1), c.tensor(2), c.tensor(3), how, "scatter");
          return to;
        })
        .grad(0, nothing, no_gradient)
        .grad(3, nothing, no_gradient)
        .inplace()
        .depends(Depends::Scattered);

static const Op& scatter_value_reduce_ =
    def("scatter.value_reduce(input, dim: int, index, value: Scalar, *, reduce: str)",
        "The same with one number.")
        .forward([](Call& c) -> Value {
          Reduce how = old_reduce(c[4].str());
          Tensor to = row_major(c);
          scatter_number(to, c.integer(1), c.tensor(2), c[3], how);
          return to;
        })
        .grad(0, nothing, no_gradient)
        .inplace()
        .depends(Depends::Scattered);

static const Op& scatter_ =
    def("scatter(input, dim: int, index, src)",
        "A copy of `input` in which out[index[i][j]][j] = src[i][j] for dim = 0, and so on.")
        .forward([](Call& c) -> Value {
          Tensor to = row_major(c);
          scatter_into(to, c.integer(1), c.tensor(2), c.tensor(3), Reduce::Replace, "scatter");
          return to;
        })
        .grad(0, input(2), clear_places)
        .grad(3, input(2), gather_source)
        .linear()
        .inplace()
        .batch(batch::along)
        .depends(Depends::Scattered)
        .any_dtype();

static const Op& scatter_value_ =
    def("scatter.value(input, dim: int, index, value: Scalar)", "The same with one number.")
        .forward([](Call& c) -> Value {
          Tensor to = row_major(c);
          scatter_number(to, c.integer(1), c.tensor(2), c[3], Reduce::Replace);
          return to;
        })
        .grad(0, input(2), clear_places)
        .jvp([](C c, const Tensor* t) -> Value { return clear_places(t[0], c); })
        .inplace()
        .node("ScatterBackward1")
        .batch(batch::along)
        .depends(Depends::Scattered)
        .any_dtype();

static const Op& scatter_add_ =
    def("scatter_add(input, dim: int, index, src)",
        "A copy of `input` with out[index[i][j]][j] += src[i][j] for dim = 0, and so on.")
        .forward([](Call& c) -> Value {
          Tensor to = row_major(c);
          scatter_into(to, c.integer(1), c.tensor(2), c.tensor(3), Reduce::Add, "scatter_add");
          return to;
        })
        .grad(0, nothing, [](T g, C) { return g; })
        .grad(3, input(2), gather_source)
        .linear()
        .inplace()
        .batch(batch::along)
        .depends(Depends::Moved);

// --- scatter_reduce -----------------------------------------------------------------------------
namespace {

// With include_self = False the places named start from what leaves a reduction unchanged.
Tensor neutral(DType d, const std::string& reduce) {
  if (reduce == "prod") return scalar_tensor(Value(1), d);
  if (reduce != "amax" && reduce != "amin") return scalar_tensor(Value(0), d);
  bool low = reduce == "amax";
  if (is_floating(d)) {
    double inf = std::numeric_limits<double>::infinity();
    return scalar_tensor(Value(low ? -inf : inf), d);
  }
  int64_t bits = static_cast<int64_t>(item_size(d)) * 8;
  if (d == DType::Bool) return scalar_tensor(Value(!low), d);
  if (d == DType::UInt8) return scalar_tensor(Value(low ? 0 : 255), d);
  int64_t lowest = std::numeric_limits<int64_t>::min() >> (64 - bits);
  return scalar_tensor(Value(low ? lowest : ~lowest), d);
}

// index_reduce names rows: the index of scatter_reduce that names all their elements.
Tensor whole_rows(T index, int dim, Span shape) {
  GradMode off(false);
  Dims line(shape.n, 1);
  if (shape.n) line[dim] = index.numel();
  return op<"expand">(op<"reshape">(index, line), shape);
}

bool any_of(const Value& mask) {
  refuse_recording("the second derivative of a product looks for zeros");
  return op<"any">(mask).tensor().data<bool>()[0];
}

template <bool Rows>
Value scatter_reduce_forward(Call& c) {
  Tensor t = c.tensor(0), index = c.tensor(2), src = c.tensor(3);
  if (Rows) index = whole_rows(index, wrap_dim(c.integer(1), t.ndim()), src.shape());
  const std::string& reduce = c[4].str();
  Reduce how = reduce_named(reduce);
  bool include_self = c.flag(5);
  if (is_complex(t.dtype()) && (how == Reduce::Max || how == Reduce::Min)) {
    runtime_error("scatter_reduce(): ", reduce, " is not defined for complex tensors");
  }
  if (t.dtype() == DType::Bool && reduce == "mean")
    not_implemented("scatter_reduce(): mean is not implemented for dtype bool");
  int dim = wrap_dim(c.integer(1), t.ndim());
  Tensor to = row_major(c);
  if (index.numel() == 0) return to;
  if (src.dtype() != t.dtype()) {
    runtime_error("scatter_reduce(): Expected self.dtype to be equal to src.dtype, got ", t.dtype(),
                  " and ", src.dtype());
  }
  Places places = plan_gather(to, dim, index, "scatter_reduce");
  Tensor values = apart(covered(src, index, to, dim), to);
  if (!include_self) write_places(to, neutral(t.dtype(), reduce), places, Reduce::Replace);
  write_places(to, values, places, how);
  if (reduce != "mean") return to;
  Tensor count = empty_like(to, t.dtype());
  copy_into(count,
            broadcast_dense(scalar_tensor(Value(include_self ? 1 : 0), t.dtype()), t.shape()));
  Tensor one = scalar_tensor(Value(1), t.dtype());
  write_places(count, one, plan_gather(count, dim, index, "scatter_reduce"), Reduce::Add);
  GradMode off(false);
  count = op<"where">(op<"eq">(count, 0), 1, count);
  Tensor mean = is_integral(t.dtype()) ? op<"floor_divide">(to, count).tensor() : to / count;
  copy_into(to, mean);
  return to;
}

void check_index_reduce(Call& c) {
  Tensor t = c.tensor(0), index = c.tensor(2), source = c.tensor(3);
  const std::string& reduce = c[4].str();
  if (reduce != "prod" && reduce != "mean" && reduce != "amax" && reduce != "amin") {
    runtime_error("index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got ",
                  reduce, ".");
  }
  int dim = wrap_dim(c.integer(1), t.ndim());
  if (index.ndim() > 1)
    index_error("index_reduce_(): Index is supposed to be a vector, but got dim: ", index.ndim());
  if (index.dtype() != DType::Int64 && index.dtype() != DType::Int32)
    runtime_error("index_reduce_(): Expected dtype int32/int64 for index, got ", index.dtype());
  if (source.dtype() != t.dtype()) {
    runtime_error("index_reduce_(): self (", t.dtype(), ") and source (", source.dtype(),
                  ") must have the same scalar type");
  }
  bool fits = source.ndim() == t.ndim();
  for (int d = 0; fits && d < t.ndim(); ++d) {
    fits = source.size(d) == (d == dim ? index.numel() : t.size(d));
  }
  if (!fits) {
    runtime_error("index_reduce_(): the shape ", source.shape(), " of source must be that of self ",
                  t.shape(), " with the number of indices (", index.numel(), ") at dim ", dim);
  }
}

Tensor zero_to_one(T x) { return op<"masked_fill">(x, op<"eq">(x, 0), 1); }

// The gradients of self and of the part of src that takes part, and where that part goes.
struct ReducedGrads {
  Tensor to_self, to_src, index;
};

// Whether a rule's own operations are recorded or have tangents.
bool differentiated_again(std::initializer_list<Tensor> ts) {
  if (!grad_enabled()) return false;
  for (const Tensor& t : ts) {
    if (needs_grad(t.get()) || may_have_tangent(t.get())) return true;
  }
  return false;
}

template <bool Rows>
ReducedGrads scatter_reduce_grads(T g, Context& c) {
  Tensor self = c.tensor(0), src = c.tensor(3);
  Value dim = c.in(1), index = c.in(2), word = c.in(4), include = c.in(5);
  if (Rows) {
    int axis = wrap_dim(dim.integer(), self.ndim());
    index = whole_rows(index.tensor(), axis, src.shape());
  }
  const std::string& reduce = word.str();
  auto gathered = [&](T x) -> Tensor { return op<"gather">(x, dim, index); };
  auto as_self = [&](const Value& x) -> Tensor { return op<"_to_copy">(x.tensor(), self.dtype()); };
  // Only the part of src that index covers takes part.
  Tensor part = src;
  Span extent = index.tensor().shape();
  for (int d = 0; d < std::min(src.ndim(), extent.n); ++d) {
    if (part.size(d) != extent[d]) part = op<"slice">(part, d, 0, extent[d]);
  }
  Tensor to_self, to_src;
  if (reduce == "sum") {
    to_self = g;
    to_src = gathered(g);
  } else if (reduce == "mean") {
    Tensor count =
        broadcast_dense(scalar_tensor(Value(include.boolean() ? 1 : 0), g.dtype()), g.shape());
    Tensor ones = broadcast_dense(scalar_tensor(Value(1), g.dtype()), extent);
    count = op<"clamp">(op<"scatter_add">(count, dim, index, ones), 1);
    to_self = g / count;
    to_src = gathered(to_self);
  } else if (reduce == "prod") {
    Tensor whole_self = zero_to_one(self);
    Tensor without_self = op<"scatter_reduce">(whole_self, dim, index, src, "prod", include);
    to_self = g * without_self / whole_self;
    Tensor zero = op<"eq">(part, 0);
    Tensor none = zeros(self.shape(), self.dtype());
    Tensor zero_count = gathered(op<"scatter_add">(none, dim, index, as_self(zero)));
    Tensor only = op<"bitwise_and">(zero, op<"eq">(zero_count, 1));
    // The slope of a product with two zeros is zero, and so is this expression; its own slope is
    // not, but that of the expression is.
    if (differentiated_again({self, part, g}) &&
        any_of(op<"bitwise_and">(zero, op<"gt">(zero_count, 1)))) {
      runtime_error("Double backward is unsupported for ", Rows ? "index_reduce" : "scatter_reduce",
                    "() with reduce='prod' where more than one zero of src meets at one position; "
                    "fix: compute the products with prod() over an axis");
    }
    Tensor filled = op<"masked_fill">(part, only, 1);
    Tensor rest = op<"scatter_reduce">(self, dim, index, filled, "prod", include);
    to_src = op<"where">(only, gathered(g * rest), gathered(g * c.out()) / zero_to_one(part));
  } else {
    Tensor result = c.out();
    Tensor self_hit = as_self(op<"eq">(self, result));
    Tensor src_hit = as_self(op<"eq">(part, gathered(result)));
    Tensor shared = g / op<"scatter_add">(self_hit, dim, index, src_hit).tensor();
    to_self = self_hit * shared;
    to_src = src_hit * gathered(shared);
  }
  if (!include.boolean()) to_self = op<"scatter.value">(to_self, dim, index, 0);
  return {to_self, to_src, index};
}

template <bool Rows>
void scatter_reduce_vjp(Context& c, Tensor* grads) {
  auto [to_self, to_src, index] = scatter_reduce_grads<Rows>(c.grad(), c);
  if (c.needs(0)) grads[0] = to_self;
  if (!c.needs(3)) return;
  Tensor src = c.tensor(3);
  for (int d = 0; d < std::min(src.ndim(), index.ndim()); ++d) {
    if (to_src.size(d) == src.size(d)) continue;
    Dims wider(to_src.shape());
    wider[d] = src.size(d);
    to_src = op<"slice_scatter">(zeros(wider, to_src.dtype()), to_src, d, 0, to_src.size(d));
  }
  grads[2] = to_src;
}

// The gradients are g, or what g is at a place, times a weight: the tangents take the same weights.
template <bool Rows>
Value scatter_reduce_tangent(Context& c, const Tensor* t) {
  auto [to_self, to_src, index] = scatter_reduce_grads<Rows>(op<"_ones_like">(c.out()), c);
  Tensor sum = t[0] ? t[0] * to_self : zeros(c.shape(0), c.dtype(0));
  if (!t[3]) return sum;
  Tensor part = t[3];
  for (int d = 0; d < std::min(part.ndim(), to_src.ndim()); ++d) {
    if (part.size(d) != to_src.size(d)) part = op<"slice">(part, d, 0, to_src.size(d));
  }
  return op<"scatter_add">(sum, c.in(1), index, part * to_src);
}

}  // namespace

static const Op& scatter_reduce_ =
    def("scatter_reduce(input, dim: int, index, src, reduce: str, *, include_self: bool = True)",
        "A copy of `input` in which the values of `src` that go to one place are reduced: sum, "
        "prod, mean, amax or amin, with the value that was there unless include_self is False.")
        .forward(scatter_reduce_forward<false>)
        .vjp(input(0) | input(2) | input(3) | output(), scatter_reduce_vjp<false>)
        .jvp(scatter_reduce_tangent<false>)
        .inplace()
        .batch(batch::along)
        .depends(Depends::ScatterReduced);

static const Op& index_reduce_ =
    def("index_reduce(input, dim: int, index, source, reduce: str, *, include_self: bool = True)",
        "A copy of `input` in which the slices of `source` that go to one place along `dim` are "
        "reduced: prod, mean, amax or amin, with the one that was there unless include_self is "
        "False.")
        .forward([](Call& c) -> Value {
          check_index_reduce(c);
          return scatter_reduce_forward<true>(c);
        })
        .vjp(input(0) | input(2) | input(3) | output(), scatter_reduce_vjp<true>)
        .jvp(scatter_reduce_tangent<true>)
        .inplace()
        .batch(batch::rows)
        .depends(Depends::IndexReduced);

namespace {

// Positions that count from the end, counted from the start; those that lie outside stay outside.
Value from_the_start(T index, int64_t n) {
  Value wraps = op<"logical_and">(op<"lt">(index, 0), op<"ge">(index, -n));
  return op<"where">(wraps, op<"add">(index, n), index);
}

}  // namespace

static const Op& take_along_dim_ =
    def("take_along_dim(input, indices, dim: int? = None)",
        "gather with broadcasting over the other axes; flat without `dim`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), index = c.tensor(1);
          if (index.dtype() != DType::Int64) {
            runtime_error("torch.take_along_dim(): dtype of indices should be Long but got ",
                          index.dtype());
          }
          if (c[2].is_none()) {
            return op<"gather">(op<"reshape">(t, Dims{-1}), 0, op<"reshape">(index, Dims{-1}));
          }
          if (t.ndim() != index.ndim()) {
            runtime_error(
                "torch.take_along_dim(): input and indices should have the same number of "
                "dimensions, but got ",
                t.ndim(), " dimensions for input, and ", index.ndim(), " dimensions for indices");
          }
          int dim = wrap_dim(c.integer(2), t.ndim());
          Dims a(t.shape()), b(index.shape());
          if (t.ndim() == 0)
            index_error("Dimension specified as ", c.integer(2), " but tensor has no dimensions");
          a[dim] = b[dim] = 1;
          Dims both = broadcast_shapes(a, b);
          both[dim] = t.size(dim);
          Tensor wide = op<"expand">(t, both);
          both[dim] = index.size(dim);
          return op<"gather">(wide, dim, op<"expand">(from_the_start(index, t.size(dim)), both));
        });

}  // namespace adjoint
