// unfold and fold: the windows of images as columns, and their sums. Each is the other's derivative.
#include "kernels/windows/unfold.h"

#include "ops/nn/planes.h"
#include "python/gil.h"
#include "tensor/checked.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// Arguments behind the first: kernel_size, dilation, padding, stride.
struct Steps {
  Dims kernel, dilation, padding, stride;
};
Steps steps_from(Call& c) { return {c.ints(1), c.ints(2), c.ints(3), c.ints(4)}; }

Dims window_counts(const Dims& in, const Steps& s) {
  Dims out;
  for (int d = 0; d < 2; ++d) {
    const int64_t reach = checked_add(checked_mul(s.dilation[d], s.kernel[d] - 1), 1);
    const int64_t room = checked_sub(checked_add(in[d], checked_mul(2, s.padding[d])), reach);
    out.push_back((room >= 0 ? room / s.stride[d] : -((-room - 1) / s.stride[d]) - 1) + 1);
  }
  return out;
}

Unfold geometry(int64_t samples, int64_t channels, const Dims& in, const Dims& out,
                const Steps& s) {
  Unfold u;
  u.samples = samples;
  u.channels = channels;
  u.in = three_axes(in, 1);
  u.out = three_axes(out, 1);
  u.kernel = three_axes(s.kernel, 1);
  u.stride = three_axes(s.stride, 1);
  u.padding = three_axes(s.padding, 0);
  u.dilation = three_axes(s.dilation, 1);
  return u;
}

// [.., channels, h, w] -> [.., channels * kernel, windows]
Value unfold_forward(Call& c) {
  Tensor x = contiguous(c.tensor(0));
  const Steps s = steps_from(c);
  const Dims in = last_sizes(x.shape(), 2), out = window_counts(in, s);
  Dims shape(Span{x->shape, x.ndim() - 3});
  shape.push_back(checked_mul(x.size(-3), checked_mul(s.kernel[0], s.kernel[1])));
  shape.push_back(checked_mul(out[0], out[1]));
  Tensor columns = empty(shape, x.dtype());
  if (columns.numel()) {
    const Unfold u = geometry(planes_of(x, 3), x.size(-3), in, out, s);
    WithoutGil release(columns.numel() >= kReleaseGil);
    unfold_windows(u, x.dtype(), x.bytes(), columns.bytes());
  }
  return columns;
}

// [.., channels * kernel, windows] -> [.., channels, h, w]
Value fold_forward(Call& c) {
  const Steps s = steps_from(c);
  const Dims in = c.ints(5), out = window_counts(in, s);
  const DType d = c.tensor(0).dtype(), as = is_integral(d) ? DType::Int64 : compute_dtype(d);
  Tensor columns = contiguous(cast(c.tensor(0), as));
  const int64_t channels = columns.size(-2) / (s.kernel[0] * s.kernel[1]);
  Dims shape(Span{columns->shape, columns.ndim() - 2});
  shape.push_back(channels);
  for (int64_t n : in) shape.push_back(n);
  if (columns.numel() == 0) return zeros(shape, d);
  Tensor x = empty(shape, as);
  const Unfold u = geometry(planes_of(columns, 2), channels, in, out, s);
  {
    WithoutGil release(columns.numel() >= kReleaseGil);
    fold_windows(u, as, columns.bytes(), x.bytes());
  }
  return cast(x, d);
}

}  // namespace

static const Op& unfold_ =
    def("_im2col(input, kernel_size: int[], dilation: int[], padding: int[], stride: int[])",
        "The windows of the last two axes as columns.")
        .forward(unfold_forward)
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                return op<"_col2im">(g, c.in(1), c.in(2), c.in(3), c.in(4),
                                     last_sizes(c.shape(0), 2));
              })
        .linear()
        .internal()
        .node("Im2ColBackward0")
        .batch(batch::as_is)
        .depends(Depends::Moved)
        .called("unfold");

static const Op& fold_ =
    def("_col2im(input, kernel_size: int[], dilation: int[], padding: int[], stride: int[], "
        "size: int[])",
        "Images of `size` with columns added into the windows they stand for.")
        .forward(fold_forward)
        .grad(
            0, nothing,
            [](T g, C c) -> Tensor { return op<"_im2col">(g, c.in(1), c.in(2), c.in(3), c.in(4)); })
        .linear()
        .internal()
        .node("Col2ImBackward0")
        .batch(batch::as_is)
        .depends(Depends::Moved)
        .called("fold");

// --- the functions -------------------------------------------------------------------------------
namespace {

Dims pair(const Dims& given, const char* what) {
  if (given.size() == 2) return given;
  if (given.size() == 1) return Dims(2, given[0]);
  runtime_error("It is expected ", what, " equals to 2, but got size ", given.size());
}

std::string shown(const Dims& d) { return text("(", d[0], ", ", d[1], ")"); }

Steps checked_steps(const Dims& kernel, const Dims& dilation, const Dims& padding,
                    const Dims& stride) {
  Steps s{pair(kernel, "kernel_size"), pair(dilation, "dilation"), pair(padding, "padding"),
          pair(stride, "stride")};
  const auto check = [](const Dims& d, int64_t least, const char* what) {
    if (d[0] < least || d[1] < least) {
      runtime_error(
          what,
          least ? " should be greater than zero, but got " : " should be non-negative, but got ",
          shown(d));
    }
  };
  check(s.kernel, 1, "kernel size");
  check(s.dilation, 1, "dilation");
  check(s.padding, 0, "padding");
  check(s.stride, 1, "stride");
  return s;
}

Value unfold(Call& c) {
  Tensor x = c.tensor(0);
  const Steps s = checked_steps(c.ints(1), c.ints(2), c.ints(3), c.ints(4));
  bool fits = x.ndim() == 3 || x.ndim() == 4;
  for (int i = x.ndim() - 3; fits && i < x.ndim(); ++i) fits = x.size(i) != 0;
  if (!fits) {
    if (x.ndim() < 3) {
      index_error("Dimension out of range: unfold expects a 3D or 4D (batch mode) input, but got ",
                  x.shape());
    }
    runtime_error(
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
        "dimensions for input, but got: ",
        x.shape());
  }
  if (is_integral(x.dtype()) && x.dtype() != DType::Bool)
    not_implemented("\"im2col\" not implemented for ", x.dtype());
  const Dims in = last_sizes(x.shape(), 2), out = window_counts(in, s);
  if (out[0] < 1 || out[1] < 1) {
    runtime_error("Given input with spatial size ", shown(in), ", kernel_size=", shown(s.kernel),
                  ", dilation=", shown(s.dilation), ", padding=", shown(s.padding),
                  ", calculated shape of the array of sliding blocks as ", shown(out),
                  ", but its components must be at least one.");
  }
  return op<"_im2col">(x, s.kernel, s.dilation, s.padding, s.stride);
}

Value fold(Call& c) {
  Tensor x = c.tensor(0);
  const Dims size = pair(c.ints(1), "output_size");
  const Steps s = checked_steps(c.ints(2), c.ints(3), c.ints(4), c.ints(5));
  const bool axes = x.ndim() == 2 || x.ndim() == 3;
  if (!axes || x.size(-1) == 0 || x.size(-2) == 0) {
    runtime_error(
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
        "dimensions for input, but got: ",
        x.shape());
  }
  if (is_integral(x.dtype()) && x.dtype() != DType::Bool)
    not_implemented("\"col2im\" not implemented for ", x.dtype());
  const int at = x.ndim() - 2;
  if (x.size(-2) % checked_mul(s.kernel[0], s.kernel[1]) != 0) {
    runtime_error("Expected size of input's dimension ", at,
                  " to be divisible by the product of kernel_size, but got input.size(", at,
                  ")=", x.size(-2), " and kernel_size=", shown(s.kernel), ".");
  }
  const Dims out = window_counts(size, s);
  if (out[0] * out[1] != x.size(-1) || out[0] < 1 || out[1] < 1) {
    runtime_error("Given output_size=", shown(size), ", kernel_size=", shown(s.kernel),
                  ", dilation=", shown(s.dilation), ", padding=", shown(s.padding),
                  ", stride=", shown(s.stride), ", expected size of input's dimension ", at + 1,
                  " to match the calculated number of sliding blocks ", out[0], " * ", out[1],
                  " = ", out[0] * out[1], ", but got input.size(", at + 1, ")=", x.size(-1), ".");
  }
  return op<"_col2im">(x, s.kernel, s.dilation, s.padding, s.stride, size);
}

}  // namespace

static const Op& unfold_function_ =
    def("_unfold_windows(input, kernel_size: int[], dilation: int[], padding: int[], stride: "
        "int[])",
        "The windows of [N, C, H, W] as columns: [N, C * kernel, windows].")
        .forward(unfold)
        .function_only()
        .no_out();
static const Op& fold_function_ =
    def("_fold_windows(input, output_size: int[], kernel_size: int[], dilation: int[], "
        "padding: int[], stride: int[])",
        "The sum of columns [N, C * kernel, windows] into images [N, C, H, W].")
        .forward(fold)
        .function_only()
        .no_out();

}  // namespace adjoint
