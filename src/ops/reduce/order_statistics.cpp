// Values at a rank: median, nanmedian, mode and quantiles. They select, or sort and then pick; NaN
// comes last (kernels/index/sorting.h). Read next: ops/index/sorting.cpp.
#include "dispatch/op.h"
#include "dispatch/program_recorder.h"
#include "dispatch/view.h"
#include "ops/index/picking.h"
#include "ops/reduce/reduce_forward.h"
#include "ops/reduce/reduce_tangent.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// How many of each run along `axis` are not NaN, with the axis kept.
Tensor numbers_along(T t, int axis) {
  GradMode off(false);
  return op<"sum">(op<"logical_not">(op<"isnan">(t)), Dims{axis}, true);
}

// The median of each run of a tensor with axes: its value and its place, the axis kept. A NaN is
// the median of the run it stands in, unless it is skipped.
Tensors medians(T t, int axis, bool skip_nan) {
  return picked_along(t, axis, skip_nan ? Pick::MedianOfNumbers : Pick::Median, 0);
}

void require_ranks(T t, const char* name) {
  if (is_complex(t.dtype()) || t.dtype() == DType::Bool) {
    not_implemented("\"", name, "\" not implemented for '", t.dtype(), "'");
  }
}

Value median_of_all(Call& c, bool skip_nan) {
  Tensor t = c.tensor(0);
  require_ranks(t, c.op.name.c_str());
  if (t.numel() == 0) {
    if (!is_floating(t.dtype()))
      runtime_error(c.op.name, "(): an empty tensor of ", t.dtype(), " has no median");
    return scalar_tensor(Value(__builtin_nan("")), t.dtype());
  }
  GradMode off(false);
  Tensor flat = op<"reshape">(t, Dims{-1});
  return unshared(op<"reshape">(medians(flat, 0, skip_nan)[0], Dims{}));
}

// The last place of the longest run of equals in each sorted row; of equally long ones, the first.
Tensor ends_of_longest_runs(T in_order, int axis) {
  int64_t n = in_order.size(axis);
  Tensor rows = op<"movedim">(in_order, Dims{axis}, Dims{-1});
  Tensor same = contiguous(op<"eq">(op<"slice">(rows, -1, 1, n), op<"slice">(rows, -1, 0, n - 1)));
  Dims shape(rows.shape());
  shape.back() = 1;
  Tensor ends = empty(shape, DType::Int64);
  for (int64_t row = 0; row < ends.numel(); ++row) {
    const bool* like_next = same.data<bool>() + row * (n - 1);
    int64_t longest = 0, length = 0;
    for (int64_t i = 0; i < n; ++i) {
      ++length;
      if (i < n - 1 && like_next[i]) continue;
      if (length > longest) {
        longest = length;
        ends.data<int64_t>()[row] = i;
      }
      length = 0;
    }
  }
  return op<"movedim">(ends, Dims{-1}, Dims{axis});
}

// The most frequent value of each run of a tensor with axes and its last place, the axis kept.
Tensors modes(T t, int axis) {
  GradMode off(false);
  Tensors in_order = op<"sort">(t, axis).tensors();
  Tensor at = ends_of_longest_runs(in_order[0], axis);
  return {op<"gather">(in_order[0], axis, at).tensor(),
          op<"gather">(in_order[1], axis, at).tensor()};
}

template <class F>
Value found_along(Call& c, F&& find) {
  Tensor t = c.tensor(0);
  int axis = wrap_dim(c.integer(1), t.ndim());
  if (t.ndim() && t.size(axis) == 0) {
    index_error(c.op.name, "(): Expected reduction dim ", axis, " to have non-zero size.");
  }
  GradMode off(false);
  Tensor line = t.ndim() ? t : op<"reshape">(t, Dims{1}).tensor();
  Tensors found = find(line, axis);
  bool kept = t.ndim() && c.flag(2);
  for (Tensor& x : found) {
    if (kept) continue;
    Dims shape(x.shape());
    shape.erase(axis);
    x = on_storage(x->storage, shape, contiguous_strides(shape), 0, x.dtype());
  }
  return found;
}

Value median_along(Call& c, bool skip_nan) {
  require_ranks(c.tensor(0), c.op.name.c_str());
  return found_along(c, [=](T t, int axis) { return medians(t, axis, skip_nan); });
}

// Equals share the gradient; so do NaNs where one of them is the median.
Tensor share_among_equals(T g, C c) {
  Tensor x = c.tensor(0), value = c.out();
  Tensor same = op<"eq">(x, value);
  if (is_floating(x.dtype()))
    same = op<"logical_or">(same, op<"logical_and">(op<"isnan">(x), op<"isnan">(value)));
  return op<"where">(same, g / op<"sum">(same).tensor(), 0.0);
}

Value tangent_of_equals(C c, const Tensor* t) {
  return reduce_tangent(t[0], c, share_among_equals, {}, false);
}

void back_along(C c, Tensor* grads) {
  Tensor g = c.grad(0), place = c.out(1);
  Span shape = c.shape(0);
  int axis = wrap_dim(c.in(1).integer(), shape.n);
  if (shape.n && !c.in(2).boolean()) {
    g = op<"unsqueeze">(g, axis);
    place = op<"unsqueeze">(place, axis);
  }
  grads[0] = shape.n ? op<"_scatter_along">(g, place, shape[axis], axis).tensor() : g;
}

// --- quantiles ----------------------------------------------------------------------------------
Tensor quantile_levels(const Value& given, T t, const char* name) {
  if (!given.is_tensor()) {
    double q = given.real();
    if (!(q >= 0 && q <= 1)) runtime_error(name, "() q must be in the range [0, 1] but got ", q);
    return scalar_tensor(given, t.dtype());
  }
  Tensor q = given.tensor();
  if (q.ndim() > 1)
    runtime_error(name, "() q must be a scalar or 1D tensor, got shape ", q.shape());
  if (q.dtype() != t.dtype()) {
    runtime_error(name, "() q tensor must be same dtype as the input tensor, got ", q.dtype(),
                  " and ", t.dtype());
  }
  GradMode off(false);
  refuse_recording(name, "() looks at the values of q; fix: pass q as a number");
  Tensor inside = op<"logical_and">(op<"ge">(q, 0), op<"le">(q, 1));
  if (!op<"all">(inside).tensor().data<bool>()[0])
    runtime_error(name, "() q values must be in the range [0, 1]");
  return q;
}

void check_quantile(T t, const std::string& how, const char* name) {
  if (t.dtype() != DType::Float32 && t.dtype() != DType::Float64) {
    runtime_error(name, "() input tensor must be either float or double dtype, got ", t.dtype());
  }
  if (how != "linear" && how != "lower" && how != "higher" && how != "midpoint" &&
      how != "nearest") {
    runtime_error(name,
                  "() interpolation must be one of linear, lower, higher, midpoint or nearest, but "
                  "got ",
                  how);
  }
}

// Where the levels lie among the sorted elements of each run, between 0 and n - 1.
Tensor quantile_ranks(T levels, T runs, bool skip_nan) {
  int last = runs.ndim() - 1;
  Tensor numbers = numbers_along(runs, last);
  if (skip_nan) {
    Tensor top = op<"clamp">(numbers - 1.0, 0);
    return levels * op<"_to_copy">(top, runs.dtype()).tensor();
  }
  // Where a run has a NaN, its last element is one.
  auto n = static_cast<double>(runs.size(last));
  Tensor flat = levels * (n - 1);
  return op<"where">(op<"lt">(numbers, runs.size(last)), n - 1, flat);
}

// The elements at these ranks, which may lie between two.
Tensor interpolated(T sorted, Tensor rank, const std::string& how) {
  auto at = [&](T where) -> Tensor {
    return op<"gather">(sorted, sorted.ndim() - 1, op<"_to_copy">(where, DType::Int64));
  };
  auto whole = [&](bool up) -> Tensor {
    GradMode off(false);
    return up ? op<"ceil">(rank) : op<"floor">(rank);
  };
  if (how == "lower" || how == "higher") return at(whole(how == "higher"));
  if (how == "nearest") {
    {
      GradMode off(false);
      rank = op<"round">(rank);
    }
    return at(rank);
  }
  Tensor below = whole(false);
  Value weight = how == "linear" ? Value(rank - below) : Value(0.5);
  return op<"lerp">(at(below), at(whole(true)), weight);
}

// Written from ops, so that input and levels get their gradients from those.
Value quantile(Call& c, bool skip_nan) {
  Tensor t = c.tensor(0);
  const char* name = c.op.name.c_str();
  const std::string& how = c[4].str();
  check_quantile(t, how, name);
  Tensor q = quantile_levels(c[1], t, name);
  int axis = c[2].is_none() ? 0 : wrap_dim(c.integer(2), t.ndim());
  if (t.numel() == 0) runtime_error(name, "() input tensor must be non-empty");
  // Runs last, levels along the last axis of the result.
  bool all = c[2].is_none() || t.ndim() == 0;
  Tensor runs =
      all ? op<"reshape">(t, Dims{-1}).tensor() : op<"movedim">(t, Dims{axis}, Dims{-1}).tensor();
  Tensor sorted = op<"sort">(runs, runs.ndim() - 1).tensors()[0];
  Tensor levels = op<"reshape">(q, Dims{-1});
  Tensor out = interpolated(sorted, quantile_ranks(levels, runs, skip_nan), how);
  // The levels go in front, the axis comes back, or both go.
  out = op<"movedim">(out, Dims{-1}, Dims{0});
  if (c.flag(3)) {
    Dims ones(t.ndim() + 1, 1);
    ones[0] = levels.size(0);
    out = all ? op<"reshape">(out, ones).tensor() : op<"unsqueeze">(out, axis + 1).tensor();
  }
  return unshared(q.ndim() ? out : op<"squeeze.dim">(out, 0).tensor());
}

}  // namespace

static const Op& median_ =
    def("median(input)",
        "The median of all elements, the lower one of two; NaN if there is one. Equals share the "
        "gradient.")
        .forward([](Call& c) { return median_of_all(c, false); })
        .grad(0, input(0) | output(), share_among_equals)
        .jvp(tangent_of_equals)
        .no_out()
        .batch([](Call& c, const int*) -> Value {
          return op<"median.dim">(batch::flat_sample(c.tensor(0)), 1).tensors()[0];
        });
static const Op& median_dim_ =
    def("median.dim(input, dim: int, keepdim: bool = False)",
        "The medians along an axis, the lower one of two, and where they stand.")
        .forward([](Call& c) { return median_along(c, false); })
        .vjp(output(1), back_along)
        .jvp(taken_tangent)
        .results({"values", "indices"})
        .node("MedianBackward1")
        .batch(batch::along)
        .depends(Depends::Along);
static const Op& nanmedian_ =
    def("nanmedian(input)",
        "The median of the elements that are not NaN, the lower one of two. Equals share the "
        "gradient.")
        .forward([](Call& c) { return median_of_all(c, true); })
        .grad(0, input(0) | output(), share_among_equals)
        .jvp(tangent_of_equals)
        .no_out()
        .batch([](Call& c, const int*) -> Value {
          return op<"nanmedian.dim">(batch::flat_sample(c.tensor(0)), 1).tensors()[0];
        });
static const Op& nanmedian_dim_ =
    def("nanmedian.dim(input, dim: int, keepdim: bool = False)",
        "The medians along an axis of the elements that are not NaN, and where they stand.")
        .forward([](Call& c) { return median_along(c, true); })
        .vjp(output(1), back_along)
        .jvp(taken_tangent)
        .results({"values", "indices"})
        .node("NanmedianBackward1")
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& mode_ =
    def("mode(input, dim: int = -1, keepdim: bool = False)",
        "The most frequent values along an axis, the smallest of equally frequent ones, and where "
        "they stand last. A NaN equals nothing.")
        .forward([](Call& c) {
          if (is_complex(c.tensor(0).dtype()))
            not_implemented("\"mode\" not implemented for '", c.tensor(0).dtype(), "'");
          return found_along(c, modes);
        })
        .vjp(output(1), back_along)
        .jvp(taken_tangent)
        .results({"values", "indices"})
        .batch(batch::along);

static const Op& quantile_ =
    def("quantile(input, q: Operand, dim: int? = None, keepdim: bool = False, *, interpolation: "
        "str "
        "= 'linear')",
        "The q-th quantiles of all elements or along an axis: q, or each of its elements, is the "
        "share of elements that lie below. NaN where there is one.")
        .forward([](Call& c) { return quantile(c, false); })
        .batch(batch::each_sample)
        .autocast(Autocast::Float32);
static const Op& nanquantile_ =
    def("nanquantile(input, q: Operand, dim: int? = None, keepdim: bool = False, *, interpolation: "
        "str = 'linear')",
        "The q-th quantiles of the elements that are not NaN.")
        .forward([](Call& c) { return quantile(c, true); })
        .batch(batch::each_sample)
        .autocast(Autocast::Float32);

}  // namespace adjoint
