// grid_sample: images and volumes looked up between their elements, at the places of a grid.
//
// Places are taken in tiles: their elements and weights are found once (kernels/sampling/grid_taps.h) and serve all
// channels. Where the derivative is differentiated again, and in forward mode, the rules of
// grid_sample_rules.h are used, which are written with ops.
#include "ops/nn/grid_sample_rules.h"

#include <limits>
#include <memory>

#include "graph/transformed.h"
#include "ops/nn/rows.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

struct Shapes {
  int64_t n, channels, places, axes, plane = 1;
  grid::Places how;

  Shapes(T input, T grid, const grid::Settings& settings)
      : n(input.size(0)), channels(input.size(1)), axes(grid.size(-1)) {
    how.how = settings;
    how.axes = axes;
    for (int64_t a = 0; a < axes; ++a) {
      how.size[a] = input.size(static_cast<int>(-1 - a));
      plane *= how.size[a];
    }
    places = n ? grid.numel() / n / axes : 0;
    if (plane > std::numeric_limits<int32_t>::max())
      runtime_error("grid_sample: a plane of ", plane, " elements is too large");
  }
};

template <class P>
char* bytes(P* p) {
  return reinterpret_cast<char*>(const_cast<std::remove_const_t<P>*>(p));
}

// The tables of a thread: too large for its stack.
template <class S>
grid::Tables<S>& own_tables() {
  thread_local std::unique_ptr<grid::Tables<S>> tables;
  if (!tables) tables = std::make_unique<grid::Tables<S>>();
  return *tables;
}

template <class S>
void sample(T input, T grid, T out, const Shapes& s) {
  const S *in = input.data<S>(), *places = grid.data<S>();
  S* result = out.data<S>();
  Loop find = row_loop("grid_places", input.dtype()), loop = row_loop("grid_values", input.dtype());
  const int64_t tiles = (s.places - 1) / grid::kTile + 1;
  each_row(s.n * tiles, grid::kTile * s.channels * 4, [&](int64_t i) {
    grid::Tables<S>& tables = own_tables<S>();
    const int64_t n = i / tiles, first = i % tiles * grid::kTile;
    const int64_t count = std::min(grid::kTile, s.places - first);
    char* at[3] = {bytes(&tables), bytes(&s.how), bytes(places + (n * s.places + first) * s.axes)};
    find(at, count);
    for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      char* p[3] = {bytes(result + c * s.places + first), bytes(in + c * s.plane), bytes(&tables)};
      loop(p, count);
    }
  });
}

// One sample after the other: places of different tiles may share elements of the input.
template <class S>
void sample_gradients(T g, T input, T grid, T to_input, T to_grid, const Shapes& s) {
  const S *in = input.data<S>(), *places = grid.data<S>(), *given = g.data<S>();
  S* of_input = to_input ? to_input.data<S>() : nullptr;
  S* of_grid = to_grid ? to_grid.data<S>() : nullptr;
  const DType d = input.dtype();
  Loop find = row_loop("grid_places", d), slope = row_loop("grid_slopes", d);
  Loop scatter = row_loop("grid_scatter", d);
  each_row(s.n, s.places * s.channels * 4, [&](int64_t n) {
    grid::Tables<S>& tables = own_tables<S>();
    S slopes[grid::kMostAxes * grid::kTile];
    int64_t axes = s.axes;
    for (int64_t first = 0; first < s.places; first += grid::kTile) {
      const int64_t count = std::min(grid::kTile, s.places - first);
      const int64_t place = (n * s.places + first) * s.axes;
      char* at[3] = {bytes(&tables), bytes(&s.how), bytes(places + place)};
      find(at, count);
      std::fill(std::begin(slopes), std::end(slopes), S(0));
      for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
        const S* from = given + c * s.places + first;
        char* one[3] = {bytes(of_input + c * s.plane), bytes(from), bytes(&tables)};
        if (of_input) scatter(one, count);
        char* two[5] = {bytes(slopes), bytes(in + c * s.plane), bytes(&tables), bytes(from),
                        bytes(&axes)};
        if (of_grid) slope(two, count);
      }
      for (int64_t o = 0; o < count && of_grid; ++o) {
        for (int64_t a = 0; a < s.axes; ++a)
          of_grid[place + o * s.axes + a] = slopes[a * grid::kTile + o];
      }
    }
  });
}

Dims result_shape(T input, T grid) {
  Dims shape{input.size(0), input.size(1)};
  for (int i = 1; i + 1 < grid.ndim(); ++i) shape.push_back(grid.size(i));
  return shape;
}

Value sample_forward(Call& c) {
  const DType d = compute_dtype(c.tensor(0).dtype());
  Tensor input = contiguous(cast(c.tensor(0), d)), grid = contiguous(cast(c.tensor(1), d));
  Tensor out = empty(result_shape(input, grid), d);
  const Shapes s(input, grid, grid_settings(c[2], c[3], c[4]));
  if (out.numel()) {
    if (d == DType::Float32)
      sample<float>(input, grid, out, s);
    else
      sample<double>(input, grid, out, s);
  }
  return cast(out, c.tensor(0).dtype());
}

// Two results: the gradients of the input and of the grid, empty where they are not wanted.
Value sample_backward(Call& c) {
  const DType given = c.tensor(1).dtype(), d = compute_dtype(given);
  Tensor g = contiguous(cast(c.tensor(0), d));
  Tensor input = contiguous(cast(c.tensor(1), d)), grid = contiguous(cast(c.tensor(2), d));
  const int64_t want = c.integer(6);
  Tensor to_input = want & 1 ? zeros(input.shape(), d) : Tensor();
  Tensor to_grid = want & 2 ? zeros(grid.shape(), d) : Tensor();
  if (g.numel()) {
    Shapes s(input, grid, grid_settings(c[3], c[4], c[5]));
    s.how.with_slopes = want & 2;
    if (d == DType::Float32)
      sample_gradients<float>(g, input, grid, to_input, to_grid, s);
    else
      sample_gradients<double>(g, input, grid, to_input, to_grid, s);
  }
  auto done = [&](T t) { return cast(t ? t : empty(Dims{0}, d), given); };
  return Tensors{done(to_input), done(to_grid)};
}

// Samples of a batch are more of the first axis.
Value flattened(Call& c, const int* axes) {
  const int64_t size = batch::size(c, axes);
  for (int i = 0; i < 2; ++i) c.args[i] = op<"flatten">(batch::whole(c, axes, i), 0, 1);
  Tensor out = apply(c.op, c.args);
  return op<"unflatten">(out, 0, Dims{size, size ? out.size(0) / size : 0});
}

}  // namespace

static const Op& grid_sample_ =
    def("_grid_sample(input, grid, mode: int, padding_mode: int, align_corners: bool)",
        "The input [N, C, ...] at the places of the grid [N, ..., axes].")
        .forward(sample_forward)
        .vjp(input(0) | input(1),
             [](C c, Tensor* grads) {
               if (grad_enabled() || g_transformed) return grid_sample_gradients(c, grads);
               const int64_t want = c.needs(0) | c.needs(1) << 1;
               Tensors r = op<"_grid_sample_backward">(c.grad(), c.in(0), c.in(1), c.in(2), c.in(3),
                                                       c.in(4), want)
                               .tensors();
               if (want & 1) grads[0] = r[0];
               if (want & 2) grads[1] = r[1];
             })
        .jvp(grid_sample_tangent)
        .function_only()
        .no_out()
        .called("grid_sample")
        .node([](const Value* args) -> const char* {
          return args[0].tensor().ndim() == 5 ? "GridSampler3DBackward0" : "GridSampler2DBackward0";
        })
        .batch(flattened)
        .autocast(Autocast::Float32);

static const Op& grid_sample_backward_ =
    def("_grid_sample_backward(g, input, grid, mode: int, padding_mode: int, align_corners: bool, "
        "want: int)",
        "The gradients of _grid_sample, those that are wanted.")
        .forward(sample_backward)
        .internal()
        .called("grid_sample");

}  // namespace adjoint
