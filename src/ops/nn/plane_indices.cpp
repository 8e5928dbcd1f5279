// Elements of planes by their indices: what a maximum over windows passes on, and max_unpool. Index
// i of a plane counts its elements row by row; -1 stands for none.
#include "kernels/windows/pool.h"
#include "ops/nn/planes.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

int64_t product(const Dims& d) {
  int64_t n = 1;
  for (int64_t s : d) n *= s;
  return n;
}

[[noreturn]] void bad_index(int64_t index, const Dims& size) {
  runtime_error("Found an invalid max index: ", index, " (planes are of size ", size, ")");
}

PlaneIndices indices(T index, int axes, int64_t size) {
  return {planes_of(index, axes), product(last_sizes(index.shape(), axes)), size,
          reinterpret_cast<const int64_t*>(index.bytes())};
}

Value gather_forward(Call& c) {
  Tensor x = contiguous(c.tensor(0)), index = contiguous(c.tensor(1));
  const int axes = static_cast<int>(c.integer(2));
  const Dims size = last_sizes(x.shape(), axes);
  Tensor y = empty(index.shape(), x.dtype());
  int64_t bad = 0;
  const bool ok =
      gather_planes(indices(index, axes, product(size)), x.itemsize(), x.bytes(), y.bytes(), &bad);
  if (!ok) bad_index(bad, size);
  return y;
}

Value scatter_forward(Call& c) {
  const Dims size = c.ints(2);
  const DType d = c.tensor(0).dtype(), as = is_integral(d) ? DType::Int64 : compute_dtype(d);
  Tensor g = contiguous(cast(c.tensor(0), as)), index = contiguous(c.tensor(1));
  Tensor dx = empty(with_planes(g, size), as);
  int64_t bad = 0;
  const PlaneIndices at = indices(index, size.size(), product(size));
  bool ok;
  {
    WithoutGil release(dx.numel() >= kReleaseGil);
    ok = add_to_planes(at, as, g.bytes(), dx.bytes(), &bad);
  }
  if (!ok) bad_index(bad, size);
  return in_format_of(cast(dx, d), {c.tensor(0)});
}

Value unpool_forward(Call& c) {
  const Dims size = c.ints(2);
  Tensor x = contiguous(c.tensor(0)), index = contiguous(c.tensor(1));
  Tensor out = empty(with_planes(x, size), x.dtype());
  int64_t bad = 0;
  const PlaneIndices at = indices(index, size.size(), product(size));
  if (!put_into_planes(at, x.itemsize(), x.bytes(), out.bytes(), &bad)) bad_index(bad, size);
  return in_format_of(out, {c.tensor(0)});
}

// Elements and indices are those of the same sample.
Value side_by_side(Call& c, const int* axes) {
  c.args[0] = batch::whole(c, axes, 0);
  c.args[1] = batch::whole(c, axes, 1);
  return apply(c.op, c.args);
}

}  // namespace

static const Op& plane_gather_ =
    def("_plane_gather(input, index, axes: int)",
        "Elements of the planes of the last `axes` axes, by their indices.")
        .forward(gather_forward)
        .grad(0, input(1),
              [](T g, C c) -> Tensor {
                Dims size = last_sizes(c.shape(0), static_cast<int>(c.in(2).integer()));
                return op<"_plane_scatter">(g, c.in(1), size);
              })
        .jvp([](C c, const Tensor* t) -> Value {
          return op<"_plane_gather">(t[0], c.in(1), c.in(2));
        })
        .internal()
        .batch(side_by_side)
        .depends(Depends::Moved);

static const Op& plane_scatter_ =
    def("_plane_scatter(g, index, size: int[])",
        "Planes of `size` with elements added at their indices.")
        .forward(scatter_forward)
        .grad(0, input(1),
              [](T g, C c) -> Tensor {
                return op<"_plane_gather">(g, c.in(1), c.in(2).ints().size());
              })
        .jvp([](C c, const Tensor* t) -> Value {
          return op<"_plane_scatter">(t[0], c.in(1), c.in(2));
        })
        .internal()
        .batch(side_by_side)
        .depends(Depends::Moved);

static const Op& unpool_ =
    def("_max_unpool(input, indices, size: int[])",
        "Planes of `size` with elements at their indices and zeros elsewhere.")
        .forward(unpool_forward)
        .grad(0, input(1),
              [](T g, C c) -> Tensor {
                return op<"_plane_gather">(g, c.in(1), c.in(2).ints().size());
              })
        .jvp(
            [](C c, const Tensor* t) -> Value { return op<"_max_unpool">(t[0], c.in(1), c.in(2)); })
        .internal()
        .node([](const Value* v) {
          return v[2].ints().size() == 3 ? "MaxUnpool3DBackward0" : "MaxUnpool2DBackward0";
        })
        .batch(side_by_side)
        .depends(Depends::Moved)
        .called("max_unpool");

// --- the functions -------------------------------------------------------------------------------
namespace {

template <int Axes>
Value max_unpool(Call& c) {
  Tensor x = c.tensor(0), index = c.tensor(1);
  const Dims& size = c.ints(2);
  if (index.dtype() != DType::Int64) {
    runtime_error("elements in indices should be type int64 but got: ", index.dtype());
  }
  if (!is_floating(x.dtype()))
    not_implemented("\"max_unpooling", Axes, "d\" not implemented for ", x.dtype());
  if (size.size() != Axes) {
    runtime_error("There should be exactly ", Axes, " elements in output_size, but got ",
                  size.size(), " elements.");
  }
  if (x.ndim() != Axes + 1 && x.ndim() != Axes + 2) {
    runtime_error("Input to max_unpooling", Axes, "d should be a ", Axes + 1, "d or ", Axes + 2,
                  "d Tensor, but got a tensor with ", x.ndim(), " dimensions.");
  }
  if (!(x.shape() == index.shape())) {
    runtime_error("Expected shape of indices to be same as that of the input tensor (", x.shape(),
                  ") but got indices tensor with shape: ", index.shape());
  }
  for (int i = x.ndim() - Axes - 1; i < x.ndim(); ++i) {
    if (x.size(i) == 0) {
      runtime_error("max_unpooling", Axes,
                    "d_forward_out(): Expected input to have non-zero size for non-batch "
                    "dimensions, but got ",
                    x.shape(), " with dimension ", i, " being empty.");
    }
  }
  return op<"_max_unpool">(x, index, size);
}

}  // namespace

static const Op& max_unpool2d_ =
    def("_max_unpool2d(input, indices, output_size: int[])",
        "Elements at their places in planes of `output_size`; zeros elsewhere.")
        .forward(max_unpool<2>)
        .function_only()
        .no_out()
        .autocast(Autocast::Float32);
static const Op& max_unpool3d_ =
    def("_max_unpool3d(input, indices, output_size: int[])",
        "Elements at their places in volumes of `output_size`; zeros elsewhere.")
        .forward(max_unpool<3>)
        .function_only()
        .no_out()
        .autocast(Autocast::Float32);

}  // namespace adjoint
