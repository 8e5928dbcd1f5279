// Pooling by windows that slide: the largest element or the mean of each. The ops proper work on the
// last axes of a tensor, however many stand before them; max_pool1d and its like check what is given
// and call them. Read next: plane_indices.cpp for derivatives of a maximum, kernels/windows/pool.h.
#include "kernels/windows/pool.h"
#include "ops/nn/planes.h"
#include "python/gil.h"
#include "tensor/checked.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// --- sizes ---------------------------------------------------------------------------------------
struct Sliding {
  Dims kernel, stride, padding, dilation;
  int axes() const { return kernel.size(); }
};

Sliding sliding_from(Call& c) {
  Sliding s{c.ints(1), c.ints(2), c.ints(3), Dims(c.ints(1).size(), 1)};
  return s;
}

// How many windows there are along an axis. With `ceil` one that is partly filled counts as well, if
// it begins inside.
int64_t windows_along(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                      bool ceil) {
  const int64_t reach = checked_add(checked_mul(dilation, kernel - 1), 1);
  const int64_t room = checked_sub(checked_add(in, checked_mul(2, padding)), reach);
  const int64_t up = checked_add(room, ceil ? stride - 1 : 0);
  int64_t n = (up >= 0 ? up / stride : -((-up + stride - 1) / stride)) + 1;
  if (ceil && (n - 1) * stride >= in + padding) --n;
  return n;
}

Dims window_counts(Span in, const Sliding& s, bool ceil) {
  Dims out;
  for (int d = 0; d < s.axes(); ++d)
    out.push_back(
        windows_along(in[d], s.kernel[d], s.stride[d], s.padding[d], s.dilation[d], ceil));
  return out;
}

Pool pool_of(T x, const Dims& in, const Dims& out, const Sliding& s) {
  Pool p;
  p.planes = planes_of(x, s.axes());
  p.in = three_axes(in, 1);
  p.out = three_axes(out, 1);
  p.kernel = three_axes(s.kernel, 1);
  p.stride = three_axes(s.stride, 1);
  p.padding = three_axes(s.padding, 0);
  p.dilation = three_axes(s.dilation, 1);
  return p;
}

// --- the ops -------------------------------------------------------------------------------------
constexpr double kWideIndex = 0x1p31;  // elements of a plane whose indices need 64 bits

Value max_pool_forward(Call& c) {
  Tensor x = c.tensor(0);
  const Sliding s{c.ints(1), c.ints(2), c.ints(3), c.ints(4)};
  DType d = pool_dtype("max_pool", x.dtype(), true);
  const Dims in = last_sizes(x.shape(), s.axes()), out = window_counts(in, s, c.flag(5));
  if (d == DType::Float32 && static_cast<double>(x.numel()) >= kWideIndex) d = DType::Float64;
  Tensor from = contiguous(cast(x, d));
  Tensor y = empty(with_planes(x, out), d), index = empty(y.shape(), DType::Int64);
  if (y.numel()) {
    const Pool p = pool_of(x, in, out, s);
    WithoutGil release(x.numel() >= kReleaseGil);
    max_pool(p, d, from.bytes(), y.bytes(), reinterpret_cast<int64_t*>(index.bytes()));
  }
  return Tensors{in_format_of(cast(y, x.dtype()), {x}), in_format_of(index, {x})};
}

Divisor divisor_from(Call& c, int with_padding) {
  return {c[with_padding + 1].is_none() ? 0 : c.integer(with_padding + 1), c.flag(with_padding)};
}

Value mean_pool_forward(Call& c) {
  Tensor x = c.tensor(0);
  const Sliding s = sliding_from(c);
  const DType d = pool_dtype("avg_pool", x.dtype(), x.dtype() == DType::Int64);
  const Dims in = last_sizes(x.shape(), s.axes()), out = window_counts(in, s, c.flag(4));
  Tensor from = contiguous(cast(x, d)), y = empty(with_planes(x, out), d);
  if (y.numel()) {
    const Pool p = pool_of(x, in, out, s);
    const Divisor by = divisor_from(c, 5);
    WithoutGil release(x.numel() >= kReleaseGil);
    mean_pool(p, d, by, from.bytes(), y.bytes());
  }
  return in_format_of(cast(y, x.dtype()), {x});
}

Value mean_pool_back_forward(Call& c) {
  Tensor g = c.tensor(0);
  const Sliding s = sliding_from(c);
  const DType d = pool_dtype("avg_pool", g.dtype(), g.dtype() == DType::Int64);
  const Dims out = last_sizes(g.shape(), s.axes()), in = c.ints(6);
  Tensor from = contiguous(cast(g, d));
  if (g.numel() == 0) return zeros(with_planes(g, in), g.dtype());
  Tensor dx = empty(with_planes(g, in), d);
  const Pool p = pool_of(g, in, out, s);
  const Divisor by = divisor_from(c, 4);
  {
    WithoutGil release(dx.numel() >= kReleaseGil);
    mean_pool_back(p, d, by, from.bytes(), dx.bytes());
  }
  return in_format_of(cast(dx, g.dtype()), {g});
}

}  // namespace

static const Op& max_pool_ =
    def("_max_pool(input, kernel_size: int[], stride: int[], padding: int[], dilation: int[], "
        "ceil_mode: bool)",
        "The largest element of each window of the last axes, and its place in the plane.")
        .forward(max_pool_forward)
        .grad(0, output(1),
              [](T g, C c) -> Tensor {
                Dims size = last_sizes(c.shape(0), c.in(1).ints().size());
                return op<"_plane_scatter">(g, c.out(1), size);
              })
        .jvp([](C c, const Tensor* t) -> Value {
          return Tensors{op<"_plane_gather">(t[0], c.out(1), c.in(1).ints().size()), Tensor()};
        })
        .internal()
        .node([](const Value* v) {
          static constexpr const char* kNames[] = {"MaxPool1DWithIndicesBackward0",
                                                   "MaxPool2DWithIndicesBackward0",
                                                   "MaxPool3DWithIndicesBackward0"};
          return kNames[v[1].ints().size() - 1];
        })
        .batch(batch::as_is)
        .depends(Depends::Convolution)
        .called("max_pool");

static const Op& mean_pool_ =
    def("_mean_pool(input, kernel_size: int[], stride: int[], padding: int[], ceil_mode: bool, "
        "count_include_pad: bool, divisor_override: int?)",
        "The mean of each window of the last axes.")
        .forward(mean_pool_forward)
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                Dims size = last_sizes(c.shape(0), c.in(1).ints().size());
                return op<"_mean_pool_back">(g, c.in(1), c.in(2), c.in(3), c.in(5), c.in(6), size,
                                             c.in(4));
              })
        .linear()
        .internal()
        .node([](const Value* v) {
          static constexpr const char* kNames[] = {"AvgPool1DBackward0", "AvgPool2DBackward0",
                                                   "AvgPool3DBackward0"};
          return kNames[v[1].ints().size() - 1];
        })
        .batch(batch::as_is)
        .depends(Depends::Convolution)
        .called("avg_pool");

static const Op& mean_pool_back_ =
    def("_mean_pool_back(g, kernel_size: int[], stride: int[], padding: int[], "
        "count_include_pad: bool, divisor_override: int?, size: int[], ceil_mode: bool)",
        "The gradient of the means of windows, in planes of `size`.")
        .forward(mean_pool_back_forward)
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                return op<"_mean_pool">(g, c.in(1), c.in(2), c.in(3), c.in(7), c.in(4), c.in(5));
              })
        .linear()
        .internal()
        .batch(batch::as_is)
        .depends(Depends::ConvolutionInput)
        .called("avg_pool");

// --- the functions -------------------------------------------------------------------------------
namespace {

const char* count_word(int n) { return n == 1 ? "one int" : n == 2 ? "two ints" : "three ints"; }

Dims per_axis(const Dims& given, int axes, const char* name, const char* what) {
  if (given.size() == axes) return given;
  if (given.size() == 1) return Dims(axes, given[0]);
  const bool omitted = std::string_view(what) == "stride";
  runtime_error(name, ": ", what, " must either be ", omitted ? "omitted, " : "",
                "a single int, or a tuple of ", count_word(axes), ", got ", given);
}

// "2x4x4"
std::string times(Span d) {
  std::string s;
  for (int64_t v : d) s += (s.empty() ? "" : "x") + std::to_string(v);
  return s;
}

void check_positive(const char* name, const char* what, const Dims& d) {
  for (int64_t v : d) {
    if (v == 0 && std::strcmp(what, "stride") == 0)
      runtime_error(name, "(): stride should not be zero, but got ", d);
    if (v <= 0) runtime_error(name, "(): ", what, " should be greater than zero, but got ", d);
  }
}

// An axis of samples may be there, and be empty; nothing else may be.
void check_input(const char* name, T x, int axes) {
  bool fits = x.ndim() == axes + 1 || x.ndim() == axes + 2;
  for (int i = x.ndim() - axes - 1; fits && i < x.ndim(); ++i) fits = x.size(i) != 0;
  if (fits) return;
  runtime_error(
      name, ": Expected ", axes + 1, "D or ", axes + 2,
      "D (batch mode) tensor with optional 0 dim batch size for input, but got:", x.shape());
}

void check_padding(const char* name, const Sliding& s) {
  for (int d = 0; d < s.axes(); ++d) {
    if (s.padding[d] < 0)
      runtime_error(name, ": pad must be non-negative, but got pad: ", s.padding[d]);
    const int64_t reach = checked_add(checked_mul(s.dilation[d], s.kernel[d] - 1), 1);
    if (s.padding[d] > reach / 2) {
      runtime_error(name, ": pad should be at most half of effective kernel size, but got pad=",
                    s.padding[d], ", kernel_size=", s.kernel[d], " and dilation=", s.dilation[d]);
    }
  }
}

Sliding checked_windows(const char* name, T x, int axes, const Value& kernel, const Value& stride,
                        const Dims& padding, const Dims& dilation, bool ceil) {
  Sliding s;
  s.kernel = per_axis(kernel.ints(), axes, name, "kernel_size");
  const bool omitted = stride.is_none() || stride.ints().empty();
  s.stride = omitted ? s.kernel : per_axis(stride.ints(), axes, name, "stride");
  s.padding = per_axis(padding, axes, name, "padding");
  s.dilation = per_axis(dilation, axes, name, "dilation");
  check_positive(name, "kernel_size", s.kernel);
  check_positive(name, "stride", s.stride);
  check_positive(name, "dilation", s.dilation);
  check_padding(name, s);
  check_input(name, x, axes);
  const Dims in = last_sizes(x.shape(), axes), out = window_counts(in, s, ceil);
  for (int64_t n : out) {
    if (n >= 1) continue;
    const int64_t channels = x.size(-axes - 1);
    runtime_error("Given input size: (", channels, "x", times(in), "). Calculated output size: (",
                  channels, "x", times(out), "). Output size is too small");
  }
  return s;
}

template <int Axes, bool Indices>
Value max_pool_of(Call& c) {
  const std::string name = text("max_pool", Axes, "d");
  Tensor x = c.tensor(0);
  if (Axes == 1) pool_dtype(name.c_str(), x.dtype(), false);
  const Sliding s =
      checked_windows(name.c_str(), x, Axes, c[1], c[2], c.ints(3), c.ints(4), c.flag(5));
  Value both = op<"_max_pool">(x, s.kernel, s.stride, s.padding, s.dilation, c[5]);
  if (Indices) return both;
  return both.tensors()[0];
}

template <int Axes>
Value avg_pool_of(Call& c) {
  const std::string name = text("avg_pool", Axes, "d");
  Tensor x = c.tensor(0);
  if (Axes > 1 && !c[6].is_none() && c.integer(6) == 0) runtime_error("divisor must be not zero");
  const Sliding s =
      checked_windows(name.c_str(), x, Axes, c[1], c[2], c.ints(3), Dims{1}, c.flag(4));
  const Dims in = last_sizes(x.shape(), Axes);
  for (int d = 0; Axes == 3 && d < Axes; ++d) {  // PyTorch asks this of volumes only
    if (in[d] < s.kernel[d]) {
      runtime_error(name, ": input of size ", in, " is smaller than kernel_size ", s.kernel);
    }
  }
  return op<"_mean_pool">(x, s.kernel, s.stride, s.padding, c[4], c[5], Axes > 1 ? c[6] : Value());
}

}  // namespace

#define MAX_POOL_ARGUMENTS                                                            \
  "(input, kernel_size: int[], stride: int[]? = None, padding: int[] = 0, dilation: " \
  "int[] = 1, ceil_mode: bool = False)"

#define MAX_POOL(axes, doc)                                               \
  static const Op& max_pool##axes##_ =                                    \
      def("max_pool" #axes "d" MAX_POOL_ARGUMENTS, doc)                   \
          .forward(max_pool_of<axes, false>)                              \
          .function_only()                                                \
          .no_out()                                                       \
          .autocast(axes == 3 ? Autocast::Float32 : Autocast::Untouched); \
  static const Op& max_pool_indices##axes##_ =                            \
      def("max_pool" #axes "d_with_indices" MAX_POOL_ARGUMENTS,           \
          doc " Their places in the plane are the second result.")        \
          .forward(max_pool_of<axes, true>)                               \
          .function_only()                                                \
          .no_out();

MAX_POOL(1, "The largest element of each window of the last axis; see `max_pool2d`.")
MAX_POOL(2,
         "The largest element of each window of the last two axes of [N, C, H, W], or without N. "
         "`stride` is the size of the windows by default; `padding`, at most half their size, is "
         "how far they may reach over the border; `dilation` the step within them; with "
         "`ceil_mode` a window that is partly filled counts as well.")
MAX_POOL(3, "The largest element of each window of the last three axes; see `max_pool2d`.")

#define AVG_POOL_ARGUMENTS                                                                    \
  "(input, kernel_size: int[], stride: int[]? = None, padding: int[] = 0, ceil_mode: bool = " \
  "False, count_include_pad: bool = True"

static const Op& avg_pool1d_ = def("avg_pool1d" AVG_POOL_ARGUMENTS ")",
                                   "The mean of each window of the last axis; see `avg_pool2d`.")
                                   .forward(avg_pool_of<1>)
                                   .function_only()
                                   .no_out();
static const Op& avg_pool2d_ =
    def("avg_pool2d" AVG_POOL_ARGUMENTS ", divisor_override: int? = None)",
        "The mean of each window of the last two axes of [N, C, H, W], or without N. Zeros of the "
        "padding count as elements, unless `count_include_pad` is false; `divisor_override` "
        "replaces the number of elements.")
        .forward(avg_pool_of<2>)
        .function_only();
static const Op& avg_pool3d_ =
    def("avg_pool3d" AVG_POOL_ARGUMENTS ", divisor_override: int? = None)",
        "The mean of each window of the last three axes; see `avg_pool2d`.")
        .forward(avg_pool_of<3>)
        .function_only()
        .autocast(Autocast::Float32);

}  // namespace adjoint
