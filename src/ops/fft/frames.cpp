// Short-time Fourier transforms: a signal cut into frames that overlap, each multiplied by a window
// and transformed; and the way back, by adding up frames.
#include "dispatch/op.h"
#include "dispatch/program_recorder.h"
#include "ops/fft/core.h"
#include "python/error.h"

namespace adjoint {
namespace {

using T = const Tensor&;

void warn(const char* text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw PythonError{};
}

// --- padding -------------------------------------------------------------------------------------
Tensor part(T x, int64_t begin, int64_t end) { return op<"slice">(x, 1, begin, end); }
Tensor backwards(T x) { return op<"flip">(x, Dims{1}); }

Tensor zeros_beside(T x, int64_t n) { return op<"_zeros_of_shape">(x, Dims{x.size(0), n}); }

// Rows with `pad` elements more on both sides.
Tensor padded(T x, int64_t pad, const std::string& mode) {
  const int64_t n = x.size(1);
  if (pad == 0) return x;
  if (mode == "constant")
    return op<"cat">(Tensors{zeros_beside(x, pad), x, zeros_beside(x, pad)}, 1);
  if (n == 0 || x.size(0) == 0)
    runtime_error("stft: a signal without elements cannot be padded, but its shape is ", x.shape());
  if (mode == "reflect") {
    if (pad >= n)
      runtime_error(
          "Argument #4: Padding size should be less than the corresponding input "
          "dimension, but got: padding (",
          pad, ", ", pad, ") of an input of ", n);
    return op<"cat">(
        Tensors{backwards(part(x, 1, pad + 1)), x, backwards(part(x, n - pad - 1, n - 1))}, 1);
  }
  if (mode == "replicate") {
    const Dims shape{x.size(0), pad};
    return op<"cat">(
        Tensors{op<"expand">(part(x, 0, 1), shape), x, op<"expand">(part(x, n - 1, n), shape)}, 1);
  }
  if (mode == "circular") {
    if (pad > n)
      runtime_error("Padding value causes wrapping around more than once: ", pad, " around ", n);
    return op<"cat">(Tensors{part(x, n - pad, n), x, part(x, 0, pad)}, 1);
  }
  not_implemented("Unrecognised padding mode ", mode);
}

// A window of fewer samples than a frame has: in the middle, zeros on both sides.
Tensor centred(T window, int64_t n) {
  const int64_t given = window.size(0), left = (n - given) / 2;
  if (given == n) return window;
  return op<"cat">(Tensors{op<"_zeros_of_shape">(window, Dims{left}), window,
                           op<"_zeros_of_shape">(window, Dims{n - given - left})},
                   0);
}

// --- stft ----------------------------------------------------------------------------------------
enum { kInput, kFft, kHop, kLength, kWindow, kCenter };  // arguments that both functions share

struct Frames {
  int64_t n_fft, hop, length;
  Tensor window;

  explicit Frames(Call& c)
      : n_fft(c.integer(kFft)),
        hop(c[kHop].is_none() ? c.integer(kFft) / 4 : c.integer(kHop)),
        length(c[kLength].is_none() ? c.integer(kFft) : c.integer(kLength)) {
    if (!c[kWindow].is_none()) window = c.tensor(kWindow);
  }
  void check_length(const std::string& name) const {
    if (length <= 0 || length > n_fft)
      runtime_error(name, ": expected 0 < win_length <= n_fft, but got win_length=", length);
  }
};

bool complex_window(const Frames& f) { return f.window && is_complex(f.window.dtype()); }

void check_stft(Call& c, const Frames& f, T rows) {
  const int64_t n = rows.size(1);
  if (f.n_fft <= 0 || f.n_fft > n)
    runtime_error("stft of a signal of ", n, " elements: expected 0 < n_fft < ", n,
                  ", but got n_fft=", f.n_fft);
  if (f.hop <= 0) runtime_error("stft: expected hop_length > 0, but got hop_length=", f.hop);
  f.check_length(c.op.name);
  if (f.window && (f.window.ndim() != 1 || f.window.size(0) != f.length))
    runtime_error("stft: expected a 1D window tensor of size equal to win_length=", f.length,
                  ", but got window with size ", f.window.shape());
}

Value stft_forward(Call& c) {
  Frames f(c);
  Tensor x = c.tensor(kInput);
  enum { Mode = 6, Normalized, Onesided, ReturnComplex, Align };
  const bool center = c.flag(kCenter);
  if (center && !c[Align].is_none())
    runtime_error("stft align_to_window should only be set when center = false");
  if (!is_floating(x.dtype()) && !is_complex(x.dtype()))
    runtime_error("stft: expected a tensor of floating point or complex values, but got ",
                  x.dtype());
  if (x.ndim() != 1 && x.ndim() != 2)
    runtime_error("stft: expected a 1D or 2D tensor, but got shape ", x.shape());
  const bool spectrum = is_complex(x.dtype()) || complex_window(f);
  if (c[ReturnComplex].is_none() && !spectrum)
    runtime_error(
        "stft requires the return_complex parameter be given for real inputs: "
        "return_complex=True, or view_as_real of that for real and imaginary parts");
  Tensor rows = x.ndim() == 1 ? op<"unsqueeze">(x, 0).tensor() : x;
  if (center) rows = padded(rows, f.n_fft / 2, c[Mode].str());
  if (!center && !c[Align].is_none() && c.flag(Align) && f.length > 0 && f.length < f.n_fft) {
    const int64_t left = (f.n_fft - f.length) / 2;
    rows = op<"cat">(
        Tensors{zeros_beside(rows, left), rows, zeros_beside(rows, f.n_fft - f.length - left)}, 1);
  }
  check_stft(c, f, rows);
  const bool onesided = c[Onesided].is_none() ? !spectrum : c.flag(Onesided);
  if (spectrum && onesided)
    runtime_error("Cannot have onesided output if window or input is complex");
  Tensor frames = op<"unfold">(rows, 1, f.n_fft, f.hop);
  if (f.window) {
    frames = frames * centred(f.window, f.n_fft);
  } else if (f.length < f.n_fft) {
    Tensor ones = op<"_zeros_of_shape">(rows, Dims{f.length}).tensor() + 1.0;
    frames = frames * centred(ones, f.n_fft);
  }
  const int64_t mode = c.flag(Normalized) ? kByRoot : kNotScaled;
  Tensor out = spectrum ? op<"_fft_c2c">(frames, Dims{2}, mode, true)
                        : op<"_fft_r2c">(frames, Dims{2}, mode, onesided);
  out = op<"transpose">(out, 1, 2);
  if (x.ndim() == 1) out = op<"squeeze.dim">(out, 0);
  if (c[ReturnComplex].is_none() || c.flag(ReturnComplex)) return out;
  warn(
      "stft with return_complex=False is deprecated: use view_as_real(stft(..., "
      "return_complex=True))");
  return op<"view_as_real">(out);
}

// --- istft ---------------------------------------------------------------------------------------
void check_istft(T x, const Frames& f, bool onesided) {
  const int64_t rows = x.size(x.ndim() - 2), wanted = onesided ? f.n_fft / 2 + 1 : f.n_fft;
  if (rows != wanted)
    runtime_error(
        "istft: expected the frequency dimension (the one before the last) of the input "
        "tensor to match ",
        onesided ? "n_fft / 2 + 1" : "n_fft", " = ", wanted,
        " when onesided=", onesided ? "True" : "False", ", but got ", rows);
  if (f.hop <= 0 || f.hop > f.length)
    runtime_error("istft: expected 0 < hop_length <= win_length, but got hop_length=", f.hop,
                  " and win_length=", f.length);
  f.check_length("istft");
  if (f.window && (f.window.ndim() != 1 || f.window.size(0) != f.length))
    runtime_error("istft: Invalid window shape. window has to be 1D and length of `win_length` = ",
                  f.length, ", but its shape is ", f.window.shape());
}

// Where no window reaches, or windows add up to nothing, the signal is unknown.
void check_overlap(T weight) {
  refuse_recording("istft looks whether its windows cover the signal");
  GradMode off(false);
  Tensor least = op<"min">(op<"abs">(weight));
  if (!(cast(least, DType::Float64).data<double>()[0] > 1e-11))
    runtime_error(
        "istft: window overlap add min is ", cast(least, DType::Float64).data<double>()[0],
        ": the windows do not cover the whole signal; fix: center=True, a shorter hop, or "
        "a window without zeros");
}

Tensor added_up(T frames, int64_t n, const Frames& f) {
  return op<"_unfold_backward">(frames, Dims{frames.size(0), n}, 1, f.n_fft, f.hop);
}

Value istft_forward(Call& c) {
  Frames f(c);
  enum { Normalized = 6, Onesided, Length, ReturnComplex };
  Tensor x = c.tensor(kInput);
  if (!is_complex(x.dtype()))
    runtime_error(
        "istft requires a complex-valued input tensor matching the output from stft with "
        "return_complex=True.");
  if (x.numel() == 0)
    runtime_error("istft: input tensor cannot be empty, but its shape is ", x.shape());
  if (x.ndim() != 2 && x.ndim() != 3)
    runtime_error("istft: expected a tensor with 2 or 3 dimensions, but got shape ", x.shape());
  const bool onesided = c[Onesided].is_none() ? x.size(x.ndim() - 2) != f.n_fft : c.flag(Onesided);
  check_istft(x, f, onesided);
  const bool whole = c.flag(ReturnComplex);
  if (whole && onesided) runtime_error("Cannot have onesided output if window or input is complex");
  if (!whole && complex_window(f))
    runtime_error("Complex windows are incompatible with return_complex=False");
  const bool single = x.ndim() == 2;
  if (single) x = op<"unsqueeze">(x, 0);
  x = op<"transpose">(x, 1, 2);  // frame after frame
  const int64_t mode = c.flag(Normalized) ? kByRoot : kByCount, count = x.size(1);
  Tensor frames;
  if (whole) {
    frames = op<"_fft_c2c">(x, Dims{2}, mode, false);
  } else {
    if (!onesided) x = op<"slice">(x, 2, 0, f.n_fft / 2 + 1);
    frames = op<"_fft_c2r">(x, Dims{2}, mode, f.n_fft);
  }
  if (!f.window)
    f.window = op<"_zeros_of_shape">(op<"real">(frames), Dims{f.length}).tensor() + 1.0;
  Tensor window = centred(f.window, f.n_fft);
  const int64_t n = f.n_fft + f.hop * (count - 1);
  Tensor signal = added_up(frames * window, n, f);
  Tensor weight = added_up(op<"expand">(op<"square">(window), Dims{1, count, f.n_fft}), n, f);
  const bool center = c.flag(kCenter);
  const int64_t begin = center ? f.n_fft / 2 : 0;
  const int64_t end = !c[Length].is_none() ? begin + c.integer(Length)
                      : center             ? n - f.n_fft / 2
                                           : n;
  signal = op<"slice">(signal, 1, begin, std::min(end, n));
  weight = op<"slice">(weight, 1, begin, std::min(end, n));
  if (weight.numel() == 0)
    runtime_error("istft: nothing is left of the signal between ", begin, " and ", end);
  check_overlap(weight);
  signal = signal / weight;
  if (end > n) {
    warn(
        "The length of signal is shorter than the length parameter. Result is being padded with "
        "zeros in the tail. Please check your center and hop_length settings.");
    signal = op<"cat">(Tensors{signal, zeros_beside(signal, end - std::max(n, begin))}, 1);
  }
  return single ? op<"squeeze.dim">(signal, 0) : Value(signal);
}

}  // namespace

static const Op& stft_ =
    def("stft(input, n_fft: int, hop_length: int? = None, win_length: int? = None, "
        "window: Tensor? = None, center: bool = True, pad_mode: str = 'reflect', "
        "normalized: bool = False, onesided: bool? = None, return_complex: bool? = None, "
        "align_to_window: bool? = None)",
        "The Fourier transforms of frames of `n_fft` samples, `hop_length` apart, each times a "
        "window; frequencies by frames.")
        .forward(stft_forward)
        .no_out()
        .autocast(Autocast::Float32);

static const Op& istft_ =
    def("istft(input, n_fft: int, hop_length: int? = None, win_length: int? = None, "
        "window: Tensor? = None, center: bool = True, normalized: bool = False, "
        "onesided: bool? = None, length: int? = None, return_complex: bool = False)",
        "The signal whose stft is nearest to the input, by least squares: its inverse.")
        .forward(istft_forward)
        .no_out();

}  // namespace adjoint
