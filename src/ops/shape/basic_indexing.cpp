// Views that basic indexing is made of: select, slice, narrow, unsqueeze, and their transposes.
// Read next: bindings/tensor/indexing.cpp, which calls them.
#include "dispatch/op.h"
#include "dispatch/view.h"
#include "ops/sparse/rules.h"
#include "tensor/checked.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

Tensor select_view(T t, int64_t dim_given, int64_t index) {
  if (t.ndim() == 0) index_error("select() cannot be applied to a 0-dim tensor.");
  int dim = wrap_dim(dim_given, t.ndim());
  int64_t n = t.size(dim);
  if (index < -n || index >= n) {
    index_error("select(): index ", index, " out of range for tensor of size ", t.shape(),
                " at dimension ", dim);
  }
  if (index < 0) index += n;
  Dims shape(t.shape()), strides(t.strides());
  shape.erase(dim);
  strides.erase(dim);
  return make_view(t, shape, strides, checked_offset(t.offset(), index, t.stride(dim)));
}

struct Bounds {
  int dim;
  int64_t start, length, step;
};

// Python's meaning of start:end:step, without negative steps.
Bounds slice_bounds(Span shape, const Value& dim, const Value& start, const Value& end,
                    int64_t step) {
  if (shape.n == 0) runtime_error("slice() cannot be applied to a 0-dim tensor.");
  int d = wrap_dim(dim.integer(), shape.n);
  if (step <= 0) runtime_error("slice step must be positive, got ", step);
  int64_t n = shape[d];
  auto place = [&](const Value& v, int64_t otherwise) {
    int64_t i = v.is_none() ? otherwise : v.integer();
    if (i < 0) i += n;
    return std::clamp<int64_t>(i, 0, n);
  };
  int64_t first = place(start, 0), last = std::max(first, place(end, n));
  int64_t span = last - first;
  return {d, first, span / step + (span % step != 0), step};
}

Tensor slice_view(T t, const Bounds& b) {
  Dims shape(t.shape()), strides(t.strides());
  shape[b.dim] = b.length;
  int64_t offset = checked_offset(t.offset(), b.start, strides[b.dim]);
  strides[b.dim] = stepped(strides[b.dim], b.step);
  return make_view(t, shape, strides, offset);
}

// A tensor of zeros of the given shape and, in `part`, the view of it that `view` makes.
template <class View>
Tensor zeros_but_for(T g, const Dims& shape, View&& view) {
  Tensor whole = zeros(shape, g.dtype());
  copy_into(view(whole), g);
  return whole;
}

void check_part(T part, T src, const char* name) {
  if (!(part.shape() == src.shape())) {
    runtime_error(name, "(): expected src to have a size equal to the slice of self. src size = ",
                  src.shape(), ", slice size = ", part.shape());
  }
}

// A copy of args[0] in which the part that `view` shows is args[1].
template <class View>
Tensor replaced(Call& c, View&& view) {
  Tensor t = c.tensor(0), src = c.tensor(1), whole = empty_like(t, t.dtype());
  Tensor part = view(whole);
  check_part(part, src, c.op.name.c_str());
  copy_into(whole, t);
  copy_into(part, src);
  return whole;
}

}  // namespace

static const Op& select_ =
    def("select(input, dim: int, index: int)",
        "The view at one index along `dim`; that axis is gone from the result.")
        .forward(
            [](Call& c) -> Value { return select_view(c.tensor(0), c.integer(1), c.integer(2)); })
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                return op<"_select_backward">(g, c.shape(0), c.in(1), c.in(2));
              })
        .linear()
        .view()
        .batch(batch::along)
        .sparse(sparse::select);

static const Op& select_backward_ =
    def("_select_backward(input, sizes: int[], dim: int, index: int)", "The transpose of select.")
        .forward([](Call& c) -> Value {
          return zeros_but_for(c.tensor(0), c.ints(1), [&](T whole) {
            return select_view(whole, c.integer(2), c.integer(3));
          });
        })
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"select">(g, c.in(2), c.in(3)); })
        .linear()
        .internal()
        .node("SelectBackwardBackward0")
        .batch(batch::by_sizes)
        .part_of_zeros(
            [](const Placing& p) -> Tensor { return op<"select">(p.whole, p.args[2], p.args[3]); });

static const Op& slice_ =
    def("slice(input, dim: int = 0, start: int? = None, end: int? = None, step: int = 1)",
        "The view of start:end:step along `dim`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          return slice_view(t, slice_bounds(t.shape(), c[1], c[2], c[3], c.integer(4)));
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                return op<"_slice_backward">(g, c.shape(0), c.in(1), c.in(2), c.in(3), c.in(4));
              })
        .linear()
        .view()
        .internal()
        .batch(batch::along);

static const Op& slice_backward_ =
    def("_slice_backward(input, sizes: int[], dim: int, start: int?, end: int?, step: int)",
        "The transpose of slice.")
        .forward([](Call& c) -> Value {
          return zeros_but_for(c.tensor(0), c.ints(1), [&](T whole) {
            return slice_view(whole, slice_bounds(whole.shape(), c[2], c[3], c[4], c.integer(5)));
          });
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor { return op<"slice">(g, c.in(2), c.in(3), c.in(4), c.in(5)); })
        .linear()
        .internal()
        .node("SliceBackwardBackward0")
        .batch(batch::by_sizes)
        .part_of_zeros([](const Placing& p) -> Tensor {
          return op<"slice">(p.whole, p.args[2], p.args[3], p.args[4], p.args[5]);
        });

static const Op& narrow_ =
    def("narrow(input, dim: int, start: int, length: int)",
        "The view of `length` elements along `dim`, from `start` on.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          int64_t start = c.integer(2), length = c.integer(3);
          if (t.ndim() == 0) runtime_error("narrow() cannot be applied to a 0-dim tensor.");
          if (length < 0) runtime_error("narrow(): length must be non-negative, got ", length);
          int dim = wrap_dim(c.integer(1), t.ndim());
          int64_t n = t.size(dim);
          if (start < -n || start > n) {
            index_error("start out of range (expected to be in range of [", -n, ", ", n,
                        "], but got ", start, ")");
          }
          if (start < 0) start += n;
          if (length > n - start) {
            runtime_error("start (", start, ") + length (", length, ") exceeds dimension size (", n,
                          ").");
          }
          c.kept = start;
          return slice_view(t, {dim, start, length, 1});
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                int64_t start = c.kept().integer();
                return op<"_slice_backward">(g, c.shape(0), c.in(1), start,
                                             start + c.in(3).integer(), 1);
              })
        .linear()
        .view()
        .node("SliceBackward0")
        .batch(batch::along);

// Tensors that count as an int are taken by the overload above.
static const Op& narrow_tensor_ =
    def("narrow.Tensor(input, dim: int, start: Tensor, length: int)",
        "The same; refuses a start that is not one integer.")
        .forward([](Call& c) -> Value {
          Tensor start = c.tensor(2);
          runtime_error("start must be an 0-dim integral Tensor, got dtype ", start.dtype(),
                        " and shape ", start.shape());
        })
        .no_out();

static const Op& unsqueeze_ =
    def("unsqueeze(input, dim: int)", "A view with an axis of length one at `dim`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          int dim = wrap_dim(c.integer(1), t.ndim() + 1);
          Dims shape(t.shape()), strides(t.strides());
          int64_t step = dim < t.ndim() ? checked_mul(shape[dim], strides[dim]) : 1;
          shape.insert(dim, 1);
          strides.insert(dim, step);
          return make_view(t, shape, strides, t.offset());
        })
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"select">(g, c.in(1), 0); })
        .linear()
        .view()
        .rearranges()
        .batch(batch::along_new)
        .sparse(sparse::unsqueeze);

static const Op& select_scatter_ =
    def("select_scatter(input, src, dim: int, index: int)",
        "A copy of `input` in which select(dim, index) is `src`.")
        .forward([](Call& c) -> Value {
          return replaced(c, [&](T t) { return select_view(t, c.integer(2), c.integer(3)); });
        })
        .vjp(nothing,
             [](Context& c, Tensor* grads) {
               Tensor g = c.grad();
               Tensor part = op<"select">(g, c.in(2), c.in(3));
               if (c.needs(0)) {
                 Tensor zero = zeros(part.shape(), g.dtype());
                 grads[0] = op<"select_scatter">(g, zero, c.in(2), c.in(3));
               }
               if (c.needs(1)) grads[1] = part;
             })
        .linear()
        .batch(batch::along)
        .depends(Depends::Moved)
        .any_dtype();

static const Op& slice_scatter_ =
    def("slice_scatter(input, src, dim: int = 0, start: int? = None, end: int? = None, "
        "step: int = 1)",
        "A copy of `input` in which start:end:step along `dim` is `src`.")
        .forward([](Call& c) -> Value {
          return replaced(c, [&](T t) {
            return slice_view(t, slice_bounds(t.shape(), c[2], c[3], c[4], c.integer(5)));
          });
        })
        .vjp(nothing,
             [](Context& c, Tensor* grads) {
               Tensor g = c.grad();
               Tensor part = op<"slice">(g, c.in(2), c.in(3), c.in(4), c.in(5));
               if (c.needs(0)) {
                 Tensor zero = zeros(part.shape(), g.dtype());
                 grads[0] = op<"slice_scatter">(g, zero, c.in(2), c.in(3), c.in(4), c.in(5));
               }
               if (c.needs(1)) grads[1] = part;
             })
        .linear()
        .batch(batch::along)
        .depends(Depends::Moved)
        .any_dtype();

}  // namespace adjoint
