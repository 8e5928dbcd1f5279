// Views that rename axes: permute, transpose, movedim, squeeze. Read view_ops.cpp first; unsqueeze
// is in basic_indexing.cpp.
#include "dispatch/op.h"
#include "dispatch/view.h"
#include "ops/sparse/rules.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// Axes made non-negative; each may appear once.
Dims distinct_axes(const Dims& dims, int ndim, const char* op_name) {
  Dims out(dims.size());
  uint64_t seen = 0;
  for (int i = 0; i < dims.size(); ++i) {
    out[i] = wrap_dim(dims[i], ndim);
    if (seen >> out[i] & 1) {
      runtime_error(op_name, "(): dim ", dims[i],
                    " appears multiple times: duplicate dims are not allowed (got ", dims, ")");
    }
    seen |= uint64_t{1} << out[i];
  }
  return out;
}

Tensor permuted(T t, const Dims& order) {
  Dims shape(order.size()), strides(order.size());
  for (int i = 0; i < order.size(); ++i) {
    shape[i] = t.size(static_cast<int>(order[i]));
    strides[i] = t.stride(static_cast<int>(order[i]));
  }
  return make_view(t, shape, strides, t.offset());
}

Tensor swapped(T t, int a, int b) {
  Dims shape(t.shape()), strides(t.strides());
  if (t.ndim() > 0) {
    std::swap(shape[a], shape[b]);
    std::swap(strides[a], strides[b]);
  }
  return make_view(t, shape, strides, t.offset());
}

// The axes of movedim, which says in which of its lists one is repeated.
Dims moved_axes(const Dims& dims, int ndim, const char* list) {
  Dims out;
  uint64_t seen = 0;
  for (int64_t d : dims) {
    int axis = wrap_dim(d, ndim);
    if (seen >> axis & 1) runtime_error("movedim: repeated dim in `", list, "` (", dims, ")");
    seen |= uint64_t{1} << axis;
    out.push_back(axis);
  }
  return out;
}

// Leaves out the axes of length one that `mask` names.
Tensor squeezed(T t, uint64_t mask) {
  Dims shape, strides;
  for (int i = 0; i < t.ndim(); ++i) {
    if (t.size(i) == 1 && mask >> i & 1) continue;
    shape.push_back(t.size(i));
    strides.push_back(t.stride(i));
  }
  return make_view(t, shape, strides, t.offset());
}

Tensor as_input_shape(T g, C c) {
  Span shape = c.shape(0);
  return op<"reshape">(g, shape);
}

}  // namespace

static const Op& permute_ =
    def("permute(input, dims: int[*])", "A view with its axes in another order.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (c.ints(1).size() != t.ndim()) {
            runtime_error(
                "permute(sparse_coo): number of dimensions in the tensor input does not match the "
                "length of the desired ordering of dimensions i.e. input.dim() = ",
                t.ndim(), " is not equal to len(dims) = ", c.ints(1).size());
          }
          return permuted(t, distinct_axes(c.ints(1), t.ndim(), "permute"));
        })
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                Dims order = c.in(1).ints(), back(order.size());
                for (int i = 0; i < order.size(); ++i) back[wrap_dim(order[i], order.size())] = i;
                return op<"permute">(g, back);
              })
        .linear()
        .view()
        .rearranges()
        .batch([](Call& c, const int*) -> Value {
          int ndim = c.tensor(0).ndim() - 1;
          Dims dims = c.ints(1);
          for (int64_t& d : dims) d = wrap_dim(d, ndim) + 1;
          dims.insert(0, 0);
          return op<"permute">(c[0], dims);
        })
        .sparse(sparse::permute);

static const Op& transpose_ =
    def("transpose(input, dim0: int, dim1: int)", "A view with two axes exchanged.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          return swapped(t, wrap_dim(c.integer(1), t.ndim()), wrap_dim(c.integer(2), t.ndim()));
        })
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"transpose">(g, c.in(1), c.in(2)); })
        .linear()
        .view()
        .rearranges()
        .alias("swapaxes")
        .alias("swapdims")
        .batch(batch::along)
        .sparse(sparse::transpose);

static const Op& adjoint_ =
    def("adjoint(input)", "The last two axes exchanged, the elements conjugated.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() == 1) {
            runtime_error(
                "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D "
                "tensor.");
          }
          return op<"conj">(t.ndim() ? op<"transpose">(t, -2, -1).tensor() : t);
        })
        .no_out();

static const Op& t_ =
    def("t(input)", "The transpose of a matrix; vectors and 0-d stay as they are.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          if (t.ndim() > 2) {
            runtime_error("t() expects a tensor with <= 2 dimensions, but self is ", t.ndim(), "D");
          }
          return swapped(t, 0, t.ndim() == 2 ? 1 : 0);
        })
        .grad(0, nothing, [](T g, C) -> Tensor { return op<"t">(g); })
        .linear()
        .view()
        .rearranges()
        .batch([](Call& c, const int*) -> Value {
          int ndim = c.tensor(0).ndim() - 1;
          if (ndim > 2)
            runtime_error("t() expects a tensor with <= 2 dimensions, but self is ", ndim, "D");
          return ndim < 2 ? op<"alias">(c[0]) : op<"transpose">(c[0], 1, 2);
        })
        .sparse(sparse::t);

static const Op& movedim_ =
    def("movedim(input, source: int[], destination: int[])",
        "A view with the axes `source` at the places `destination`, the others in their order.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          const Dims &from = c.ints(1), &to = c.ints(2);
          if (from.size() != to.size()) {
            runtime_error("movedim: Invalid source or destination dims: source (", from,
                          " dims) should contain the same number of dims as destination (", to,
                          " dims)");
          }
          Dims source = moved_axes(from, t.ndim(), "source");
          Dims destination = moved_axes(to, t.ndim(), "destination");
          if (t.ndim() == 0) return op<"alias">(t);
          Dims order(t.ndim(), -1);
          for (int i = 0; i < source.size(); ++i)
            order[static_cast<int>(destination[i])] = source[i];
          for (int axis = 0, at = 0; axis < t.ndim(); ++axis) {
            if (source.contains(axis)) continue;
            while (order[at] >= 0) ++at;
            order[at] = axis;
          }
          return op<"permute">(t, order);
        })
        .no_out()
        .alias("moveaxis");

// x[...] and x[:] too.
static const Op& alias_ = def("alias(input)", "A view of the whole tensor.")
                              .forward([](Call& c) -> Value {
                                Tensor t = c.tensor(0);
                                return make_view(t, t.shape(), t.strides(), t.offset());
                              })
                              .grad(0, nothing, [](T g, C) { return g; })
                              .linear()
                              .view()
                              .rearranges()
                              .internal()
                              .batch(batch::as_is)
                              .sparse(sparse::linear_on_entries);

static const Op& squeeze_ =
    def("squeeze(input)", "A view without the axes of length one.")
        .forward([](Call& c) -> Value { return squeezed(c.tensor(0), ~uint64_t{0}); })
        .grad(0, nothing, as_input_shape)
        .linear()
        .view()
        .rearranges()
        .batch([](Call& c, const int*) -> Value {
          Tensor t = c.tensor(0);
          Dims ones;
          for (int i = 1; i < t.ndim(); ++i) {
            if (t.size(i) == 1) ones.push_back(i);
          }
          return ones.empty() ? op<"alias">(t) : op<"squeeze.dims">(t, ones);
        });

static const Op& squeeze_dim_ =
    def("squeeze.dim(input, dim: int)", "A view without one axis, if its length is one.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          return squeezed(t, uint64_t{1} << wrap_dim(c.integer(1), t.ndim()));
        })
        .grad(0, nothing, as_input_shape)
        .linear()
        .view()
        .rearranges()
        .node("SqueezeBackward1")
        .batch(batch::along);

static const Op& squeeze_dims_ =
    def("squeeze.dims(input, dim: int[*])", "A view without those of the axes whose length is one.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          uint64_t mask = 0;
          for (int64_t d : distinct_axes(c.ints(1), t.ndim(), "squeeze")) mask |= uint64_t{1} << d;
          return squeezed(t, mask);
        })
        .grad(0, nothing, as_input_shape)
        .linear()
        .view()
        .rearranges()
        .node("SqueezeBackward2")
        .batch(batch::along);

}  // namespace adjoint
