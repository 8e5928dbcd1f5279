// The functions of convolutions: conv1d to conv3d, their transposes, `convolution` and conv_tbc.
// They check what is given, find the size of the result and call one of the products of
// convolution.cpp.
#include "ops/nn/convolution.h"
#include "tensor/checked.h"

namespace adjoint {
namespace {

using T = const Tensor&;

// One number for all axes, or one for each.
Dims per_axis(const Dims& given, int axes, const char* name) {
  if (given.size() == axes) return given;
  if (given.size() == 1) return Dims(axes, given[0]);
  runtime_error("expected ", name, " to be a single integer value or a list of ", axes,
                " values to match the convolution dimensions, but got ", name, "=", given);
}

bool any_below(const Dims& d, int64_t least) {
  for (int64_t v : d) {
    if (v < least) return true;
  }
  return false;
}

// "3 x 4"
std::string times(const Dims& d) {
  std::string s;
  for (int64_t v : d) s += (s.empty() ? "" : " x ") + std::to_string(v);
  return s;
}

void check_steps(const ConvSteps& s) {
  if (s.groups <= 0) runtime_error("non-positive groups is not supported, got groups=", s.groups);
  if (any_below(s.padding, 0))
    runtime_error("negative padding is not supported, got padding=", s.padding);
  if (any_below(s.stride, 1))
    runtime_error("non-positive stride is not supported, got stride=", s.stride);
  if (any_below(s.dilation, 1))
    runtime_error("dilation should be greater than zero, but got ", s.dilation);
}

void check_bias(const Value& bias, T w, int64_t channels, const char* how) {
  if (bias.is_none()) return;
  Tensor b = bias;
  if (b.ndim() == 1 && b.size(0) == channels) return;
  runtime_error("Given ", how, "weight of size ", w.shape(),
                ", expected bias to be 1-dimensional with ", channels,
                " elements, but got bias of size ", b.shape(), " instead");
}

void check_operands(T x, T w, const Value& bias, int64_t groups) {
  if (x.ndim() != w.ndim()) {
    runtime_error("Expected ", w.ndim(), "-dimensional input for ", w.ndim(),
                  "-dimensional weight ", w.shape(), ", but got ", x.ndim(),
                  "-dimensional input of size ", x.shape(), " instead");
  }
  if (x.dtype() != w.dtype()) {
    runtime_error("Input type (", x.dtype(), ") and weight type (", w.dtype(),
                  ") should be the same");
  }
  if (!bias.is_none() && Tensor(bias).dtype() != x.dtype()) {
    runtime_error("Input type (", x.dtype(), ") and bias type (", Tensor(bias).dtype(),
                  ") should be the same");
  }
  if (w.size(0) < groups) {
    runtime_error("Given groups=", groups, ", expected weight to be at least ", groups,
                  " at dimension 0, but got weight of size ", w.shape(), " instead");
  }
  if (w.size(0) % groups != 0) {
    runtime_error("Given groups=", groups, ", expected weight to be divisible by ", groups,
                  " at dimension 0, but got weight of size ", w.shape(), " instead");
  }
  for (int d = 2; d < w.ndim(); ++d) {
    if (w.size(d) == 0)
      runtime_error("kernel size should be greater than zero, but got weight of size ", w.shape());
  }
  for (int d = 2; d < x.ndim(); ++d) {
    if (x.size(d) == 0 && x.size(0) != 0 && x.size(1) != 0) {
      runtime_error("Only zero batch or zero channel inputs are supported, but got input shape: ",
                    x.shape());
    }
  }
}

// How far a kernel reaches over one axis.
int64_t extent(T w, int d, const ConvSteps& s) {
  return checked_add(checked_mul(s.dilation[d], w.size(d + 2) - 1), 1);
}

// `after`: zeros behind the input, where they are not as many as before it.
Tensor plain(T x, T w, const Value& bias, const ConvSteps& s, const Dims& after) {
  check_operands(x, w, bias, s.groups);
  if (x.size(1) != w.size(1) * s.groups) {
    runtime_error("Given groups=", s.groups, ", weight of size ", w.shape(), ", expected input",
                  x.shape(), " to have ", w.size(1) * s.groups, " channels, but got ", x.size(1),
                  " channels instead");
  }
  check_bias(bias, w, w.size(0), "");
  Dims padded, reach, size;
  bool fits = true;
  for (int d = 0; d < s.stride.size(); ++d) {
    padded.push_back(checked_add(x.size(d + 2), checked_add(s.padding[d], after[d])));
    reach.push_back(extent(w, d, s));
    fits &= padded[d] >= reach[d];
    size.push_back((padded[d] - reach[d]) / s.stride[d] + 1);
  }
  if (!fits) {
    runtime_error("Calculated padded input size per channel: (", times(padded), "). Kernel size: (",
                  times(reach), "). Kernel size can't be greater than actual input size");
  }
  return conv_output_of(x, w, bias, size, s);
}

Tensor transposed(T x, T w, const Value& bias, const ConvSteps& s, const Dims& output_padding) {
  if (any_below(output_padding, 0))
    runtime_error("negative output_padding is not supported, got ", output_padding);
  check_operands(x, w, bias, s.groups);
  if (x.size(1) != w.size(0)) {
    runtime_error("Given transposed=1, weight of size ", w.shape(), ", expected input", x.shape(),
                  " to have ", w.size(0), " channels, but got ", x.size(1), " channels instead");
  }
  check_bias(bias, w, w.size(1) * s.groups, "transposed=1, ");
  Dims size, given = spatial(x.shape());
  for (int d = 0; d < s.stride.size(); ++d) {
    if (output_padding[d] >= s.stride[d] && output_padding[d] >= s.dilation[d]) {
      runtime_error(
          "output padding must be smaller than either stride or dilation, but got "
          "output_padding: ",
          output_padding, " stride: ", s.stride, " dilation: ", s.dilation);
    }
    const int64_t whole = checked_add(checked_mul(x.size(d + 2) - 1, s.stride[d]), extent(w, d, s));
    size.push_back(
        checked_add(checked_sub(whole, checked_mul(2, s.padding[d])), output_padding[d]));
  }
  if (any_below(size, 1) && x.numel() != 0) {
    runtime_error("Given input size per channel: (", times(given),
                  "). Calculated output size per channel: (", times(size),
                  "). Output size is too small");
  }
  for (int64_t& s : size) s = std::max<int64_t>(s, 0);
  return conv_input_of(x, w, bias, size, s);
}

ConvSteps steps_for(T w, const Dims& stride, const Dims& padding, const Dims& dilation,
                    int64_t groups) {
  const int axes = w.ndim() - 2;
  if (axes <= 0) runtime_error("weight should have at least three dimensions, got ", w.shape());
  if (axes > 3) {
    runtime_error("convolutions have one to three spatial axes, but the weight ", w.shape(),
                  " has ", axes);
  }
  ConvSteps s{per_axis(stride, axes, "stride"), per_axis(padding, axes, "padding"),
              per_axis(dilation, axes, "dilation"), groups};
  check_steps(s);
  return s;
}

// Calls f on an input with an axis of samples.
template <class F>
Tensor with_samples(T x, int axes, const char* name, F f) {
  if (x.ndim() != axes + 1 && x.ndim() != axes + 2) {
    runtime_error("Expected ", axes + 1, "D (unbatched) or ", axes + 2, "D (batched) input to ",
                  name, ", but got input of size: ", x.shape());
  }
  if (x.ndim() == axes + 2) return f(x);
  return op<"squeeze.dim">(f(op<"unsqueeze">(x, 0).tensor()), 0);
}

template <int Axes>
Value conv(Call& c) {
  Tensor w = c.tensor(1);
  return with_samples(c.tensor(0), Axes, c.op.name.c_str(), [&](T x) {
    const ConvSteps s = steps_for(w, c.ints(3), c.ints(4), c.ints(5), c.integer(6));
    return plain(x, w, c[2], s, s.padding);
  });
}

// padding='same' has one zero more behind than before, where their number is odd.
template <int Axes>
Value conv_named(Call& c) {
  Tensor w = c.tensor(1);
  const std::string& padding = c[4].str();
  return with_samples(c.tensor(0), Axes, c.op.name.c_str(), [&](T x) {
    ConvSteps s = steps_for(w, c.ints(3), Dims{0}, c.ints(5), c.integer(6));
    Dims after = s.padding;
    if (padding == "same") {
      for (int d = 0; d < s.stride.size(); ++d) {
        if (s.stride[d] != 1)
          runtime_error("padding='same' is not supported for strided convolutions");
        const int64_t total = extent(w, d, s) - 1;
        s.padding[d] = total / 2;
        after[d] = total - total / 2;
      }
    } else if (padding != "valid") {
      runtime_error("Invalid padding string: '", padding, "'; expected 'valid' or 'same'");
    }
    return plain(x, w, c[2], s, after);
  });
}

template <int Axes>
Value conv_transpose(Call& c) {
  Tensor w = c.tensor(1);
  return with_samples(c.tensor(0), Axes, c.op.name.c_str(), [&](T x) {
    const ConvSteps s = steps_for(w, c.ints(3), c.ints(4), c.ints(7), c.integer(6));
    return transposed(x, w, c[2], s, per_axis(c.ints(5), w.ndim() - 2, "output_padding"));
  });
}

Value any_convolution(Call& c) {
  Tensor x = c.tensor(0), w = c.tensor(1);
  const ConvSteps s = steps_for(w, c.ints(3), c.ints(4), c.ints(5), c.integer(8));
  const Dims output_padding = per_axis(c.ints(7), w.ndim() - 2, "output_padding");
  return c.flag(6) ? transposed(x, w, c[2], s, output_padding) : plain(x, w, c[2], s, s.padding);
}

Value conv_tbc(Call& c) {
  Tensor x = c.tensor(0), w = c.tensor(1), bias = c.tensor(2);
  if (x.ndim() != 3)
    runtime_error("Input must have 3 dims: time, batch, in_channel, got ", x.shape());
  if (w.ndim() != 3)
    runtime_error("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels, got ",
                  w.shape());
  if (bias.ndim() != 1) runtime_error("Bias must be 1-D, got ", bias.shape());
  if (x.size(2) != w.size(1)) {
    runtime_error("Input dim 2 (input channels) is not == dim 1 in the weight tensor: ", x.size(2),
                  " and ", w.size(1));
  }
  if (w.size(2) != bias.size(0)) {
    runtime_error("Bias size must equal dim 2 in the weight tensor (output channels): ",
                  bias.size(0), " and ", w.size(2));
  }
  Tensor out = op<"conv1d">(op<"permute">(x, Dims{1, 2, 0}), op<"permute">(w, Dims{2, 1, 0}), bias,
                            Dims{1}, Dims{c.integer(3)});
  return op<"permute">(out, Dims{2, 0, 1});
}

}  // namespace

#define CONV_ARGUMENTS "(input, weight, bias: Tensor? = None, stride: int[] = 1, "

static const Op& conv1d_ =
    def("conv1d" CONV_ARGUMENTS "padding: int[] = 0, dilation: int[] = 1, groups: int = 1)",
        "Slides `weight` [out, in / groups, k] over the last axis of `input` [N, in, L]; see "
        "`conv2d`.")
        .forward(conv<1>)
        .function_only()
        .no_out()
        .autocast(Autocast::Lower);
static const Op& conv1d_named_ =
    def("conv1d.padding" CONV_ARGUMENTS
        "padding: str = 'valid', dilation: int[] = 1, groups: int = 1)",
        "Slides `weight` [out, in / groups, k] over the last axis of `input` [N, in, L]; see "
        "`conv2d`.")
        .forward(conv_named<1>)
        .function_only()
        .no_out()
        .autocast(Autocast::Lower);

static const Op& conv2d_ =
    def("conv2d" CONV_ARGUMENTS "padding: int[] = 0, dilation: int[] = 1, groups: int = 1)",
        "Slides `weight` [out, in / groups, kH, kW] over the last two axes of `input` [N, in, H, "
        "W] "
        "(or without N): a cross-correlation. `stride` and `dilation` are the steps of the window "
        "and of the elements within it, `padding` the zeros around the input: numbers, 'valid' or "
        "'same'.")
        .forward(conv<2>)
        .function_only()
        .no_out()
        .autocast(Autocast::Lower);
static const Op& conv2d_named_ =
    def("conv2d.padding" CONV_ARGUMENTS
        "padding: str = 'valid', dilation: int[] = 1, groups: int = 1)",
        "Slides `weight` over the last two axes of `input`: a cross-correlation.")
        .forward(conv_named<2>)
        .function_only()
        .no_out()
        .autocast(Autocast::Lower);

static const Op& conv3d_ =
    def("conv3d" CONV_ARGUMENTS "padding: int[] = 0, dilation: int[] = 1, groups: int = 1)",
        "Slides `weight` [out, in / groups, kD, kH, kW] over `input` [N, in, D, H, W]; see "
        "`conv2d`.")
        .forward(conv<3>)
        .function_only()
        .no_out()
        .autocast(Autocast::Lower);
static const Op& conv3d_named_ =
    def("conv3d.padding" CONV_ARGUMENTS
        "padding: str = 'valid', dilation: int[] = 1, groups: int = 1)",
        "Slides `weight` [out, in / groups, kD, kH, kW] over `input` [N, in, D, H, W]; see "
        "`conv2d`.")
        .forward(conv_named<3>)
        .function_only()
        .no_out()
        .autocast(Autocast::Lower);

#define TRANSPOSE_ARGUMENTS \
  CONV_ARGUMENTS            \
  "padding: int[] = 0, output_padding: int[] = 0, groups: int = 1, dilation: int[] = 1)"

static const Op& conv_transpose1d_ = def("conv_transpose1d" TRANSPOSE_ARGUMENTS,
                                         "The transpose of `conv1d`; see `conv_transpose2d`.")
                                         .forward(conv_transpose<1>)
                                         .function_only()
                                         .no_out()
                                         .autocast(Autocast::Lower);
static const Op& conv_transpose2d_ =
    def("conv_transpose2d" TRANSPOSE_ARGUMENTS,
        "The transpose of `conv2d`: each element of `input` [N, in, H, W] puts `weight` [in, out / "
        "groups, kH, kW] times itself into the result. `output_padding` makes that larger at the "
        "end, since several sizes would be convolved to that of the input.")
        .forward(conv_transpose<2>)
        .function_only()
        .no_out()
        .autocast(Autocast::Lower);
static const Op& conv_transpose3d_ = def("conv_transpose3d" TRANSPOSE_ARGUMENTS,
                                         "The transpose of `conv3d`; see `conv_transpose2d`.")
                                         .forward(conv_transpose<3>)
                                         .function_only()
                                         .no_out()
                                         .autocast(Autocast::Lower);

static const Op& convolution_ =
    def("convolution(input, weight, bias: Tensor?, stride: int[], padding: int[], dilation: int[], "
        "transposed: bool, output_padding: int[], groups: int)",
        "A convolution over as many axes as the weight has behind its first two, or its transpose.")
        .forward(any_convolution)
        .function_only()
        .no_out();

static const Op& conv_tbc_ =
    def("conv_tbc(input, weight, bias, pad: int = 0)",
        "A convolution over time: `input` [time, batch, in], `weight` [k, in, out].")
        .forward(conv_tbc)
        .function_only()
        .no_out()
        .autocast(Autocast::Lower);

}  // namespace adjoint
