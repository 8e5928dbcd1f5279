// The functions of `adjoint.fft`: which lengths, axes and scaling are meant, and then one of the
// three transforms of core.cpp.
#include "dispatch/op.h"
#include "ops/fft/core.h"

namespace adjoint {
namespace {

using T = const Tensor&;

// --- arguments -----------------------------------------------------------------------------------
// A tensor that can be transformed: integers become floats, real numbers complex ones if asked to.
Tensor prepared(T x, bool to_complex) {
  DType d = is_integral(x.dtype()) ? default_dtype() : x.dtype();
  const DType real = real_dtype(d);
  if (real != DType::Float32 && real != DType::Float64) runtime_error("Unsupported dtype ", d);
  if (to_complex) d = complex_dtype(real);
  return d == x.dtype() ? x : op<"_to_copy">(x, d).tensor();
}

void check_real(T x, std::string_view name) {
  if (is_complex(x.dtype()))
    runtime_error(name, " expects a real input tensor, but got ", x.dtype());
}

int axis_of(int64_t dim, T x) {
  if (x.ndim() == 0) index_error("Dimension specified as ", dim, " but tensor has no dimensions");
  return wrap_dim(dim, x.ndim());
}

void check_points(int64_t n) {
  if (n < 1) runtime_error("Invalid number of data points (", n, ") specified");
}

// The axis cut short, or with zeros added.
Tensor resized(T x, int axis, int64_t n) {
  const int64_t given = x.size(axis);
  if (given == n) return x;
  if (given > n) return op<"slice">(x, axis, 0, n);
  Dims rest(x.shape());
  rest[axis] = n - given;
  return op<"cat">(Tensors{x, op<"_zeros_of_shape">(x, rest)}, axis);
}

// Each of these stands for the factor that makes the transform and its inverse undo one another.
int64_t scaling(const Value& norm, bool forward) {
  if (norm.is_none() || norm.str() == "backward") return forward ? kNotScaled : kByCount;
  if (norm.str() == "forward") return forward ? kByCount : kNotScaled;
  if (norm.str() == "ortho") return kByRoot;
  runtime_error("Invalid normalization mode: \"", norm.str(), "\"");
}

// Arguments of all functions of one axis: input, n, dim, norm.
struct OneAxis {
  Tensor x;
  int axis;
  int64_t n;  // of the complex or the longer side
};

OneAxis one_axis(Call& c, Tensor x) {
  const int axis = axis_of(c.integer(2), x);
  const int64_t n = c[1].is_none() ? x.size(axis) : c.integer(1);
  check_points(n);
  return {resized(x, axis, n), axis, n};
}

// The same for results that are real: n is the length of the result.
OneAxis one_axis_back(Call& c) {
  Tensor x = prepared(c.tensor(0), true);
  const int axis = axis_of(c.integer(2), x);
  const int64_t n = c[1].is_none() ? 2 * (x.size(axis) - 1) : c.integer(1);
  check_points(n);
  return {resized(x, axis, n / 2 + 1), axis, n};
}

// Arguments of all functions of several axes: input, s, dim, norm.
struct Axes {
  Dims dims, sizes;
};

Axes axes_of(Call& c, T x) {
  Axes a;
  const int ndim = x.ndim();
  if (!c[2].is_none()) {
    uint64_t seen = 0;
    for (int64_t d : c.ints(2)) {
      const int axis = axis_of(d, x);
      if (seen >> axis & 1) runtime_error("FFT dims must be unique");
      seen |= uint64_t{1} << axis;
      a.dims.push_back(axis);
    }
  }
  if (!c[1].is_none()) {
    const Dims& s = c.ints(1);
    if (!c[2].is_none() && s.size() != a.dims.size())
      runtime_error("When given, dim and shape arguments must have the same length");
    const int count = static_cast<int>(s.size());
    if (count > ndim)
      runtime_error("Got shape with ", count, " values but input tensor only has ", ndim,
                    " dimensions.");
    if (c[2].is_none())
      for (int d = ndim - count; d < ndim; ++d) a.dims.push_back(d);
    for (int i = 0; i < count; ++i)
      a.sizes.push_back(s[i] == -1 ? x.size(static_cast<int>(a.dims[i])) : s[i]);
  } else {
    if (c[2].is_none())
      for (int d = 0; d < ndim; ++d) a.dims.push_back(d);
    for (int64_t d : a.dims) a.sizes.push_back(x.size(static_cast<int>(d)));
  }
  for (int64_t n : a.sizes) check_points(n);
  return a;
}

Tensor resized(Tensor x, const Axes& a) {
  for (int i = 0; i < a.dims.size(); ++i) x = resized(x, static_cast<int>(a.dims[i]), a.sizes[i]);
  return x;
}

// The same for results that are real. Returns the length of the last axis of the result.
int64_t last_size(Call& c, T x, Axes& a, const char* name) {
  if (a.dims.empty()) runtime_error(name, " must transform at least one axis");
  const int last = static_cast<int>(a.dims.size()) - 1;
  const bool given = !c[1].is_none() && c.ints(1)[last] != -1;
  const int64_t n = given ? c.ints(1)[last] : 2 * (x.size(static_cast<int>(a.dims[last])) - 1);
  check_points(n);
  a.sizes[last] = n / 2 + 1;
  return n;
}

Dims without_last(Dims dims) {
  dims.erase(dims.size() - 1);
  return dims;
}

// --- one axis ------------------------------------------------------------------------------------
Value fft_1d(Call& c, bool forward) {
  OneAxis a = one_axis(c, prepared(c.tensor(0), false));
  const int64_t mode = scaling(c[3], forward);
  if (is_complex(a.x.dtype())) return op<"_fft_c2c">(a.x, Dims{a.axis}, mode, forward);
  Value whole = op<"_fft_r2c">(a.x, Dims{a.axis}, mode, false);
  return forward ? whole : op<"conj">(whole);
}

Value rfft_1d(Call& c, bool forward) {
  check_real(c.tensor(0), c.op.name.substr(4));
  OneAxis a = one_axis(c, prepared(c.tensor(0), false));
  Value half = op<"_fft_r2c">(a.x, Dims{a.axis}, scaling(c[3], forward), true);
  return forward ? half : op<"conj">(half);
}

Value irfft_1d(Call& c, bool forward) {
  OneAxis a = one_axis_back(c);
  Tensor x = forward ? op<"conj_physical">(a.x).tensor() : a.x;
  return op<"_fft_c2r">(x, Dims{a.axis}, scaling(c[3], forward), a.n);
}

// --- several axes --------------------------------------------------------------------------------
Value fft_nd(Call& c, bool forward) {
  Tensor x = prepared(c.tensor(0), false);
  Axes a = axes_of(c, x);
  const int64_t mode = scaling(c[3], forward);
  if (forward && !is_complex(x.dtype()) && !a.dims.empty())
    return op<"_fft_r2c">(resized(x, a), a.dims, mode, false);
  return op<"_fft_c2c">(resized(prepared(x, true), a), a.dims, mode, forward);
}

Value rfft_nd(Call& c) {
  const Tensor x = c.tensor(0);
  if (is_complex(x.dtype()))
    runtime_error("rfftn expects a real-valued input tensor, but got ", x.dtype());
  Tensor real = prepared(x, false);
  Axes a = axes_of(c, real);
  if (a.dims.empty()) runtime_error("rfftn must transform at least one axis");
  return op<"_fft_r2c">(resized(real, a), a.dims, scaling(c[3], true), true);
}

Value irfft_nd(Call& c) {
  Tensor x = prepared(c.tensor(0), true);
  Axes a = axes_of(c, x);
  const int64_t n = last_size(c, x, a, "irfftn");
  return op<"_fft_c2r">(resized(x, a), a.dims, scaling(c[3], false), n);
}

Value hfft_nd(Call& c) {
  Tensor x = prepared(c.tensor(0), true);
  Axes a = axes_of(c, x);
  const int64_t n = last_size(c, x, a, "hfftn"), mode = scaling(c[3], true);
  x = resized(x, a);
  if (a.dims.size() > 1) x = op<"_fft_c2c">(x, without_last(a.dims), mode, true);
  return op<"_fft_c2r">(op<"conj_physical">(x), Dims{a.dims.back()}, mode, n);
}

Value ihfft_nd(Call& c) {
  const Tensor x = c.tensor(0);
  if (is_complex(x.dtype()))
    runtime_error("Only supports floating-point dtypes, but found: ", x.dtype());
  Tensor real = prepared(x, false);
  Axes a = axes_of(c, real);
  if (a.dims.empty()) runtime_error("ihfftn must transform at least one axis");
  const int64_t mode = scaling(c[3], false);
  Value half = op<"_fft_r2c">(resized(real, a), Dims{a.dims.back()}, mode, true);
  if (a.dims.size() == 1) return op<"conj">(half);
  return op<"_fft_c2c">(op<"conj_physical">(half), without_last(a.dims), mode, false);
}

// Half of each axis further, or back again.
Value shifted(Call& c, bool forward) {
  const Tensor x = c.tensor(0);
  Dims dims, shifts;
  if (c[1].is_none()) {
    for (int d = 0; d < x.ndim(); ++d) dims.push_back(d);
  } else {
    for (int64_t d : c.ints(1)) dims.push_back(axis_of(d, x));
  }
  for (int64_t d : dims) {
    const int64_t n = x.size(static_cast<int>(d));
    shifts.push_back(forward ? n / 2 : (n + 1) / 2);
  }
  return op<"roll">(x, shifts, dims);
}

}  // namespace

// --- blocks --------------------------------------------------------------------------------------
static const Op& zeros_of_shape_ =
    def("_zeros_of_shape(input, size: int[])", "Zeros of the input's dtype and of a given shape.")
        .forward([](Call& c) -> Value { return zeros(c.ints(1), c.tensor(0).dtype()); })
        .internal()
        .batch([](Call& c, const int*) -> Value {
          Dims shape = c.ints(1);
          shape.insert(0, c.tensor(0).size(0));
          return zeros(shape, c.tensor(0).dtype());
        })
        .fills();

#define ONE_AXIS "(input, n: int? = None, dim: int = -1, norm: str? = None)"
#define TWO_AXES "(input, s: int[]? = None, dim|axes: int[]? = [-2, -1], norm: str? = None)"
#define ALL_AXES "(input, s: int[]? = None, dim|axes: int[]? = None, norm: str? = None)"

static const Op& fft_ = def("fft_fft" ONE_AXIS,
                            "The discrete Fourier transform along an axis, cut to `n` elements or "
                            "with zeros up to `n`.")
                            .forward([](Call& c) { return fft_1d(c, true); })
                            .function_only()
                            .out_dtype(OutDType::SameKind)
                            .autocast(Autocast::Float32);
static const Op& ifft_ = def("fft_ifft" ONE_AXIS, "The inverse of fft.")
                             .forward([](Call& c) { return fft_1d(c, false); })
                             .function_only()
                             .out_dtype(OutDType::SameKind)
                             .autocast(Autocast::Float32);
static const Op& rfft_ =
    def("fft_rfft" ONE_AXIS,
        "The first n/2 + 1 elements of the Fourier transform of real numbers; the others are their "
        "conjugates.")
        .forward([](Call& c) { return rfft_1d(c, true); })
        .function_only()
        .out_dtype(OutDType::SameKind)
        .autocast(Autocast::Float32);
static const Op& irfft_ =
    def("fft_irfft" ONE_AXIS, "The inverse of rfft: `n` real numbers, an even number by default.")
        .forward([](Call& c) { return irfft_1d(c, false); })
        .function_only()
        .out_dtype(OutDType::SameKind)
        .autocast(Autocast::Float32);
static const Op& hfft_ =
    def("fft_hfft" ONE_AXIS,
        "The Fourier transform, which is real, of a signal given by its first half: the second is "
        "the conjugate of the first seen backwards.")
        .forward([](Call& c) { return irfft_1d(c, true); })
        .function_only()
        .out_dtype(OutDType::SameKind)
        .autocast(Autocast::Float32);
static const Op& ihfft_ = def("fft_ihfft" ONE_AXIS, "The inverse of hfft.")
                              .forward([](Call& c) { return rfft_1d(c, false); })
                              .function_only()
                              .out_dtype(OutDType::SameKind)
                              .autocast(Autocast::Float32);

#define SEVERAL_AXES(name, doc, call)                                                   \
  static const Op& name##2_ = def("fft_" #name "2" TWO_AXES, doc " over two axes.")     \
                                  .forward([](Call& c) -> Value { return call; })       \
                                  .function_only()                                      \
                                  .out_dtype(OutDType::SameKind)                        \
                                  .autocast(Autocast::Float32);                         \
  static const Op& name##n_ = def("fft_" #name "n" ALL_AXES, doc " over several axes.") \
                                  .forward([](Call& c) -> Value { return call; })       \
                                  .function_only()                                      \
                                  .out_dtype(OutDType::SameKind)                        \
                                  .autocast(Autocast::Float32);
SEVERAL_AXES(fft, "The discrete Fourier transform", fft_nd(c, true))
SEVERAL_AXES(ifft, "The inverse of the discrete Fourier transform", fft_nd(c, false))
SEVERAL_AXES(rfft,
             "The discrete Fourier transform of real numbers, half of it along the last axis,",
             rfft_nd(c))
SEVERAL_AXES(irfft, "The inverse of rfft", irfft_nd(c))
SEVERAL_AXES(hfft, "The discrete Fourier transform of a signal given by half of it", hfft_nd(c))
SEVERAL_AXES(ihfft, "The inverse of hfft", ihfft_nd(c))
#undef SEVERAL_AXES
#undef ONE_AXIS
#undef TWO_AXES
#undef ALL_AXES

static const Op& fftshift_ =
    def("fft_fftshift(input, dim|axes: int[]? = None)",
        "The elements of a spectrum in order of frequency: zero in the middle.")
        .forward([](Call& c) { return shifted(c, true); })
        .function_only()
        .no_out();
static const Op& ifftshift_ =
    def("fft_ifftshift(input, dim|axes: int[]? = None)", "The inverse of fftshift.")
        .forward([](Call& c) { return shifted(c, false); })
        .function_only()
        .no_out();

}  // namespace adjoint
