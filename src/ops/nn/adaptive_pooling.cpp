// Pooling to a size that is given: windows that cover an axis of any length, side by side or
// overlapping by one; and fractional pooling, whose windows are drawn. Read pooling.cpp first.
#include "kernels/convert.h"
#include "kernels/windows/pool.h"
#include "ops/nn/planes.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// Window q of an axis is [floor(q * in / out), ceil((q + 1) * in / out)).
AxisWindows covering(int64_t in, int64_t out) {
  AxisWindows w;
  for (int64_t q = 0; q < out; ++q) {
    const int64_t whole = in / out, rest = in % out;  // q * in would overflow for huge axes
    w.begin.push_back(q * whole + q * rest / out);
    w.end.push_back((q + 1) * whole + ((q + 1) * rest + out - 1) / out);
  }
  return w;
}

Windows3 windows_covering(const WindowSizes& s) {
  Windows3 w;
  for (size_t d = 0; d < 3; ++d) w[d] = covering(s.in[d], s.out[d]);
  return w;
}

WindowSizes sizes_of(T planes, const Dims& in, const Dims& out) {
  return {planes_of(planes, in.size()), three_axes(in, 1), three_axes(out, 1)};
}

Value adaptive_max_forward(Call& c) {
  Tensor x = c.tensor(0);
  const Dims out = c.ints(1), in = last_sizes(x.shape(), out.size());
  const DType d = pool_dtype("adaptive_max_pool", x.dtype(), false);
  Tensor from = contiguous(cast(x, d)), y = empty(with_planes(x, out), d);
  Tensor index = empty(y.shape(), DType::Int64);
  if (y.numel()) {
    const WindowSizes s = sizes_of(x, in, out);
    const Windows3 w = windows_covering(s);
    WithoutGil release(x.numel() >= kReleaseGil);
    max_of_windows(s, d, w, from.bytes(), y.bytes(), reinterpret_cast<int64_t*>(index.bytes()));
  }
  return Tensors{in_format_of(cast(y, x.dtype()), {x}), in_format_of(index, {x})};
}

Value adaptive_mean_forward(Call& c) {
  Tensor x = c.tensor(0);
  const Dims out = c.ints(1), in = last_sizes(x.shape(), out.size());
  const DType d = pool_dtype("adaptive_avg_pool", x.dtype(), false);
  Tensor from = contiguous(cast(x, d)), y = empty(with_planes(x, out), d);
  if (y.numel()) {
    const WindowSizes s = sizes_of(x, in, out);
    const Windows3 w = windows_covering(s);
    WithoutGil release(x.numel() >= kReleaseGil);
    mean_of_windows(s, d, w, from.bytes(), y.bytes());
  }
  return in_format_of(cast(y, x.dtype()), {x});
}

Value adaptive_mean_back_forward(Call& c) {
  Tensor g = c.tensor(0);
  const Dims in = c.ints(1), out = last_sizes(g.shape(), in.size());
  const DType d = pool_dtype("adaptive_avg_pool", g.dtype(), false);
  if (g.numel() == 0) return zeros(with_planes(g, in), g.dtype());
  Tensor from = contiguous(cast(g, d)), dx = empty(with_planes(g, in), d);
  const WindowSizes s = sizes_of(g, in, out);
  const Windows3 w = windows_covering(s);
  {
    WithoutGil release(dx.numel() >= kReleaseGil);
    mean_of_windows_back(s, d, w, from.bytes(), dx.bytes());
  }
  return in_format_of(cast(dx, g.dtype()), {g});
}

// --- fractional ----------------------------------------------------------------------------------
// A number as a tensor of this dtype would hold it: PyTorch computes the places of windows in the
// dtype of the input.
double rounded(DType d, double v) {
  char held[16];
  store_scalar(d, held, v);
  return load_double(d, held);
}

// Windows of `kernel` elements, about in / out apart: sample in [0, 1) says where they begin.
AxisWindows drawn(DType d, double sample, int64_t in, int64_t out, int64_t kernel) {
  AxisWindows w;
  const auto at = [d](double v) { return rounded(d, v); };
  const double room = at(static_cast<double>(in - kernel));
  const double apart = out > 1 ? at(room / at(static_cast<double>(out - 1))) : 0;
  const auto start = static_cast<int64_t>(at(sample * apart));
  for (int64_t q = 0; q < out; ++q) {
    const double place = at(at(static_cast<double>(q) + sample) * apart);
    int64_t begin = q + 1 < out ? static_cast<int64_t>(place) - start : in - kernel;
    begin = std::clamp<int64_t>(begin, 0, in - kernel);  // samples beyond one stay inside
    w.begin.push_back(begin);
    w.end.push_back(begin + kernel);
  }
  return w;
}

Value fractional_forward(Call& c) {
  Tensor x = c.tensor(0), samples = contiguous(cast(c.tensor(3), DType::Float64));
  const Dims kernel = c.ints(1), out = c.ints(2);
  const int axes = kernel.size();
  const Dims in = last_sizes(x.shape(), axes);
  const DType d = pool_dtype("fractional_max_pool", x.dtype(), false);
  Tensor from = contiguous(cast(x, d)), y = empty(with_planes(x, out), d);
  Tensor index = empty(y.shape(), DType::Int64);
  const WindowSizes all = sizes_of(x, in, out);
  WindowSizes one = all;
  one.planes = 1;
  const auto* sample = reinterpret_cast<const double*>(samples.bytes());
  const int64_t plane = x.numel() ? x.numel() / all.planes : 0;
  const int64_t count = y.numel() ? y.numel() / all.planes : 0;
  const auto item = static_cast<int64_t>(item_size(d));
  for (int64_t p = 0; p < all.planes && y.numel(); ++p, sample += axes) {
    Windows3 w;
    w[0] = w[1] = AxisWindows{{0}, {1}};
    for (int i = 0; i < axes; ++i) {
      // Samples stand in the order of the axes, but for two, which stand the other way round.
      const double given = sample[axes == 2 ? 1 - i : i];
      w[static_cast<size_t>(3 - axes + i)] = drawn(x.dtype(), given, in[i], out[i], kernel[i]);
    }
    max_of_windows(one, d, w, from.bytes() + p * plane * item, y.bytes() + p * count * item,
                   reinterpret_cast<int64_t*>(index.bytes()) + p * count);
  }
  return Tensors{cast(y, x.dtype()), index};
}

// A pool without windows has no gradient to hand on, unless there is no sample either.
void check_gradient(const char* kind, T g, int axes) {
  for (int i = g.ndim() - axes; i < g.ndim(); ++i) {
    if (g.size(i) == 0) {
      runtime_error("adaptive_", kind, "_pool", axes,
                    "d_backward(): Expected grad_output to have non-zero size for non-batch "
                    "dimensions, but grad_output has sizes ",
                    g.shape(), " with dimension ", i, " being empty");
    }
  }
}

Tensor from_indices(T g, C c) {
  return op<"_plane_scatter">(g, c.out(1), last_sizes(c.shape(0), c.in(1).ints().size()));
}
Value at_indices(C c, const Tensor* t) {
  return Tensors{op<"_plane_gather">(t[0], c.out(1), c.in(1).ints().size()), Tensor()};
}

}  // namespace

static const Op& adaptive_max_ =
    def("_adaptive_max_pool(input, output_size: int[])",
        "The largest element of each of `output_size` windows, and its place in the plane.")
        .forward(adaptive_max_forward)
        .grad(0, output(1),
              [](T g, C c) -> Tensor {
                check_gradient("max", g, c.in(1).ints().size());
                return from_indices(g, c);
              })
        .jvp(at_indices)
        .internal()
        .node([](const Value* v) {
          return v[1].ints().size() == 3 ? "AdaptiveMaxPool3DBackward0"
                                         : "AdaptiveMaxPool2DBackward0";
        })
        .batch(batch::as_is)
        .depends(Depends::Convolution)
        .called("adaptive_max_pool");

static const Op& adaptive_mean_ =
    def("_adaptive_mean_pool(input, output_size: int[])",
        "The mean of each of `output_size` windows.")
        .forward(adaptive_mean_forward)
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                const int axes = c.in(1).ints().size();
                check_gradient("avg", g, axes);
                return op<"_adaptive_mean_back">(g, last_sizes(c.shape(0), axes));
              })
        .linear()
        .internal()
        .node([](const Value* v) {
          return v[1].ints().size() == 3 ? "AdaptiveAvgPool3DBackward0"
                                         : "AdaptiveAvgPool2DBackward0";
        })
        .batch(batch::as_is)
        .depends(Depends::Convolution)
        .called("adaptive_avg_pool");

static const Op& adaptive_mean_back_ =
    def("_adaptive_mean_back(g, size: int[])",
        "The gradient of adaptive means, in planes of `size`.")
        .forward(adaptive_mean_back_forward)
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                Dims out = last_sizes(c.shape(0), c.in(1).ints().size());
                return op<"_adaptive_mean_pool">(g, out);
              })
        .linear()
        .internal()
        .batch(batch::as_is)
        .depends(Depends::ConvolutionInput)
        .called("adaptive_avg_pool");

static const Op& fractional_ =
    def("_fractional_max_pool(input, kernel_size: int[], output_size: int[], samples)",
        "The largest element of each of `output_size` windows whose places `samples` say.")
        .forward(fractional_forward)
        .grad(0, output(1), from_indices)
        .jvp(at_indices)
        .internal()
        .node([](const Value* v) {
          return v[1].ints().size() == 3 ? "FractionalMaxPool3DBackward0"
                                         : "FractionalMaxPool2DBackward0";
        })
        .batch([](Call& c, const int* axes) -> Value {
          c.args[0] = batch::whole(c, axes, 0);
          c.args[3] = batch::whole(c, axes, 3);
          return apply(c.op, c.args);
        })
        .called("fractional_max_pool");

// --- the functions -------------------------------------------------------------------------------
namespace {

Dims checked_size(const char* name, const Dims& given, int axes) {
  if (given.size() != axes && given.size() != 1)
    runtime_error(name, ": output_size must be ", axes, " numbers, got ", given);
  for (int64_t s : given) {
    if (s < 0) {
      runtime_error(name,
                    ": elements of output_size must be greater than or equal to 0 but received ",
                    given);
    }
  }
  return given.size() == axes ? given : Dims(axes, given[0]);
}

void check_axes(const char* name, T x, int axes, int first_needed) {
  if (x.ndim() != axes + 1 && x.ndim() != axes + 2) {
    runtime_error(name, "(): Expected ", axes + 1, "D or ", axes + 2,
                  "D tensor, but got: ", x.shape());
  }
  // The first axis may be empty whatever it is.
  for (int i = std::max(1, x.ndim() - axes - first_needed); i < x.ndim(); ++i) {
    if (x.size(i) == 0) {
      runtime_error(name,
                    "(): Expected input to have non-zero size for non-batch dimensions, but input "
                    "has sizes ",
                    x.shape(), " with dimension ", i, " being empty");
    }
  }
}

template <int Axes>
Value adaptive_avg(Call& c) {
  const std::string name = text("adaptive_avg_pool", Axes, "d");
  Tensor x = c.tensor(0);
  const Dims size = checked_size(name.c_str(), c.ints(1), Axes);
  check_axes(name.c_str(), x, Axes, Axes == 3 ? 1 : 0);
  return op<"_adaptive_mean_pool">(x, size);
}
template <int Axes>
Value adaptive_max(Call& c) {
  const std::string name = text("adaptive_max_pool", Axes, "d");
  Tensor x = c.tensor(0);
  const Dims size = checked_size(name.c_str(), c.ints(1), Axes);
  check_axes(name.c_str(), x, Axes, 1);
  return op<"_adaptive_max_pool">(x, size);
}

template <int Axes>
Value fractional_max(Call& c) {
  const std::string name = text("fractional_max_pool", Axes, "d");
  Tensor x = c.tensor(0), samples = c.tensor(3);
  check_axes(name.c_str(), x, Axes, 1);
  const Dims &kernel = c.ints(1), &out = c.ints(2);
  if (kernel.size() != Axes || out.size() != Axes) {
    runtime_error(name, ": kernel_size and output_size must be a single int or ", Axes,
                  " ints, got ", kernel, " and ", out);
  }
  static constexpr const char* kAxes[] = {"time", "height", "width"};
  for (int d = 0; d < Axes; ++d) {
    const int64_t in = x.size(x.ndim() - Axes + d);
    if (kernel[d] <= 0 || out[d] < 0) {
      runtime_error(name, "(): kernel_size must be positive and output_size not negative, got ",
                    kernel, " and ", out);
    }
    if (out[d] + kernel[d] - 1 > in) {
      runtime_error(name, "(): pool ", kAxes[3 - Axes + d], " ", kernel[d],
                    " too large relative to input ", kAxes[3 - Axes + d], " ", in);
    }
  }
  if (samples.dtype() != x.dtype())
    type_error("Expect _random_samples to have the same dtype as input");
  const bool batched = x.ndim() == Axes + 2;
  const int64_t n = batched ? x.size(0) : 1, channels = x.size(-Axes - 1);
  if (samples.ndim() != 3 || samples.size(0) < n || samples.size(1) < channels ||
      samples.size(2) != Axes) {
    runtime_error("Expect _random_samples of shape [", n, ", ", channels, ", ", Axes, "]; got ",
                  samples.shape(), ".");
  }
  Tensor used = op<"narrow">(op<"narrow">(samples, 0, 0, n), 1, 0, channels);
  if (!batched) used = op<"select">(used, 0, 0);
  return op<"_fractional_max_pool">(x, kernel, out, used);
}

}  // namespace

#define ADAPTIVE(axes)                                                                           \
  static const Op& adaptive_avg##axes##_ =                                                       \
      def("adaptive_avg_pool" #axes "d(input, output_size: int[])",                              \
          "Means of windows that divide the last axes (" #axes                                   \
          ") into `output_size` parts of about equal size.")                                     \
          .forward(adaptive_avg<axes>)                                                           \
          .function_only()                                                                       \
          .no_out()                                                                              \
          .autocast(axes == 3 ? Autocast::Float32 : Autocast::Untouched);                        \
  static const Op& adaptive_max##axes##_ =                                                       \
      def("adaptive_max_pool" #axes "d(input, output_size: int[])",                              \
          "The largest elements, and their places, of windows that divide the last axes (" #axes \
          ") into `output_size` parts of about equal size.")                                     \
          .forward(adaptive_max<axes>)                                                           \
          .function_only()                                                                       \
          .no_out()                                                                              \
          .autocast(axes == 3 ? Autocast::Float32 : Autocast::Untouched);

ADAPTIVE(1)
ADAPTIVE(2)
ADAPTIVE(3)

static const Op& fractional2d_ =
    def("_fractional_max_pool2d(input, kernel_size: int[], output_size: int[], samples)",
        "The largest elements, and their places, of windows that `samples` place.")
        .forward(fractional_max<2>)
        .function_only()
        .no_out()
        .autocast(Autocast::Float32);
static const Op& fractional3d_ =
    def("_fractional_max_pool3d(input, kernel_size: int[], output_size: int[], samples)",
        "The largest elements, and their places, of windows that `samples` place.")
        .forward(fractional_max<3>)
        .function_only()
        .no_out()
        .autocast(Autocast::Float32);

}  // namespace adjoint
