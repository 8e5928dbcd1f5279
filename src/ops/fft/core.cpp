// The three transforms that all others are made of, on complex or real input, over one or several
// axes. Each is linear, and its transpose is one of the three: derivatives of every order are
// transforms. The public names are in transforms.cpp; the loops in kernels/fft.
#include <cmath>

#include "dispatch/op.h"
#include "kernels/fft/mirror.h"
#include "kernels/fft/transform.h"
#include "ops/fft/core.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// The product of sizes, to the power that the normalisation says; PyTorch's numbers for it.
double scale_of(int64_t mode, double count) {
  switch (mode) {
    case kNotScaled:
      return 1;
    case kByRoot:
      return 1 / std::sqrt(count);
    case kByCount:
      return 1 / count;
    default:
      runtime_error("Unsupported normalization mode: ", mode);
  }
}

Dims wrapped(const Dims& dims, int ndim) {
  Dims found;
  uint64_t seen = 0;
  for (int64_t d : dims) {
    const int axis = wrap_dim(d, ndim);
    if (seen >> axis & 1) runtime_error("FFT dims must be unique");
    seen |= uint64_t{1} << axis;
    found.push_back(axis);
  }
  return found;
}

// One axis of `from`, into `to`; along the others the sizes are `sizes`.
void along(fft::Kind kind, T from, T to, int axis, int64_t n, Span sizes, bool inverse,
           double scale) {
  fft::Axis job{.kind = kind,
                .is_double = real_dtype(to.dtype()) == DType::Float64,
                .inverse = inverse,
                .n = n,
                .scale = scale,
                .in = from.bytes(),
                .out = to.bytes(),
                .in_stride = from.stride(axis),
                .out_stride = to.stride(axis),
                .loops = {}};
  for (int d = 0; d < sizes.n; ++d) {
    if (d != axis) job.loops.push_back({sizes[d], from.stride(d), to.stride(d)});
  }
  WithoutGil release(to.numel() >= kReleaseGil / 8);
  fft::transform(job);
}

// A complex transform over `dims`, the last first; `scale` with the last that is done.
void over(const Dims& dims, Tensor from, T to, Span sizes, bool inverse, double scale) {
  for (int i = static_cast<int>(dims.size()) - 1; i >= 0; --i) {
    const int axis = static_cast<int>(dims[i]);
    along(fft::Kind::Complex, from, to, axis, sizes[axis], sizes, inverse, i ? 1 : scale);
    from = to;
  }
}

void check_complex(const Call& c, T x) {
  if (x.dtype() != DType::Complex64 && x.dtype() != DType::Complex128)
    runtime_error(c.op.name, " expects a complex input tensor, but got ", x.dtype());
}

Value complex_forward(Call& c) {
  Tensor x = c.tensor(0);
  check_complex(c, x);
  const Dims dims = wrapped(c.ints(1), x.ndim());
  double count = 1;
  for (int64_t d : dims) count *= static_cast<double>(x.size(static_cast<int>(d)));
  const double scale = scale_of(c.integer(2), count);
  Tensor out = empty(x.shape(), x.dtype());
  if (dims.empty()) {
    copy_into(out, x);
  } else if (x.numel()) {
    over(dims, x, out, x.shape(), !c.flag(3), scale);
  }
  return out;
}

Value real_forward(Call& c) {
  Tensor x = c.tensor(0);
  if (x.dtype() != DType::Float32 && x.dtype() != DType::Float64)
    runtime_error(c.op.name, " expects a real input tensor, but got ", x.dtype());
  Dims dims = wrapped(c.ints(1), x.ndim());
  if (dims.empty()) runtime_error(c.op.name, " must transform at least one axis");
  double count = 1;
  uint64_t transformed = 0;
  for (int64_t d : dims) {
    count *= static_cast<double>(x.size(static_cast<int>(d)));
    transformed |= uint64_t{1} << d;
  }
  const double scale = scale_of(c.integer(2), count);
  const int last = static_cast<int>(dims.back());
  const int64_t n = x.size(last);
  Dims half(x.shape()), whole(x.shape());
  half[last] = n / 2 + 1;
  Tensor out = empty(c.flag(3) ? half : whole, complex_dtype(x.dtype()));
  if (!out.numel()) return out;
  if (!n) runtime_error("Invalid number of data points (0) specified");
  dims.erase(dims.size() - 1);
  // Pairs of real numbers are read as complex ones, whose parts lie a step apart: it must not be zero.
  const bool repeats = n > 1 && x.stride(last) == 0;
  along(fft::Kind::Forward, repeats ? contiguous(x) : x, out, last, n, whole, false,
        dims.empty() ? scale : 1);
  over(dims, out, out, half, false, scale);
  if (!c.flag(3)) {
    WithoutGil release(out.numel() >= kReleaseGil);
    fft::fill_mirrored(x.dtype() == DType::Float64, out.bytes(), whole.begin(), out.ndim(), last,
                       transformed);
  }
  return out;
}

Value back_forward(Call& c) {
  Tensor x = c.tensor(0);
  check_complex(c, x);
  Dims dims = wrapped(c.ints(1), x.ndim());
  if (dims.empty()) runtime_error(c.op.name, " must transform at least one axis");
  const int last = static_cast<int>(dims.back());
  const int64_t n = c.integer(3);
  if (n < 1) runtime_error("Invalid number of data points (", n, ") specified");
  if (x.size(last) < n / 2 + 1)
    runtime_error(c.op.name, " of ", n, " points needs ", n / 2 + 1, " along axis ", last,
                  ", but the input has ", x.size(last));
  Dims shape(x.shape());
  shape[last] = n;
  double count = 1;
  for (int64_t d : dims) count *= static_cast<double>(shape[static_cast<int>(d)]);
  const double scale = scale_of(c.integer(2), count);
  Tensor out = empty(shape, real_dtype(x.dtype()));
  if (!out.numel()) return out;
  dims.erase(dims.size() - 1);
  if (!dims.empty()) {
    Tensor between = empty(x.shape(), x.dtype());
    over(dims, x, between, x.shape(), true, 1);
    x = between;
  }
  along(fft::Kind::Back, x, out, last, n, shape, false, scale);
  return out;
}

// Elements that stand for themselves and their mirror image count twice, or half.
Tensor weighted(T half, const Dims& dims, int64_t n, double inside) {
  const int last = wrap_dim(dims.back(), half.ndim());
  const int64_t mirrored = (n - 1) / 2;
  if (mirrored == 0) return half;
  Tensor middle = op<"slice">(half, last, 1, 1 + mirrored).tensor() * inside;
  Tensors parts{op<"slice">(half, last, 0, 1), middle};
  if (n % 2 == 0) parts.push_back(op<"slice">(half, last, 1 + mirrored, 2 + mirrored));
  return op<"cat">(std::move(parts), last);
}

Tensor real_grad(T g, C c) {
  const Dims dims = c.in(1).ints();
  if (!c.in(3).boolean()) return op<"real">(op<"_fft_c2c">(g, dims, c.in(2), false));
  const int last = wrap_dim(dims.back(), g.ndim());
  const int64_t n = c.shape(0)[last];
  return op<"_fft_c2r">(weighted(g, dims, n, 0.5), dims, c.in(2), n);
}

Tensor back_grad(T g, C c) {
  const Dims dims = c.in(1).ints();
  Tensor half = weighted(op<"_fft_r2c">(g, dims, c.in(2), true), dims, c.in(3).integer(), 2);
  const int last = wrap_dim(dims.back(), g.ndim());
  const int64_t given = c.shape(0)[last], used = half.size(last);
  if (given == used) return half;
  Dims rest(half.shape());
  rest[last] = given - used;
  return op<"cat">(Tensors{half, zeros(rest, half.dtype())}, last);
}

}  // namespace

static const Op& c2c_ =
    def("_fft_c2c(input, dim: int[], normalization: int, forward: bool)",
        "The discrete Fourier transform of complex numbers over axes, or its inverse.")
        .forward(complex_forward)
        .grad(0, nothing,
              [](T g, C c) -> Tensor {
                return op<"_fft_c2c">(g, c.in(1), c.in(2), !c.in(3).boolean());
              })
        .linear()
        .function_only()
        .no_out()
        .node("FftC2CBackward0")
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& r2c_ =
    def("_fft_r2c(input, dim: int[], normalization: int, onesided: bool)",
        "The discrete Fourier transform of real numbers over axes; of the last of `dim` only the "
        "half that determines the rest if `onesided`.")
        .forward(real_forward)
        .grad(0, nothing, real_grad)
        .linear()
        .function_only()
        .no_out()
        .node("FftR2CBackward0")
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& c2r_ = def("_fft_c2r(input, dim: int[], normalization: int, last_dim_size: int)",
                            "The inverse of _fft_r2c: real numbers from half of their spectrum.")
                            .forward(back_forward)
                            .grad(0, nothing, back_grad)
                            .linear()
                            .function_only()
                            .no_out()
                            .node("FftC2RBackward0")
                            .batch(batch::along)
                            .depends(Depends::Along);

}  // namespace adjoint
