// Windows that signals are cut out with: one element per sample, computed in float64 and rounded
// once. `adjoint.signal.windows` has more of them, written with these.
#include <cmath>
#include <numbers>

#include "ops/creation/options.h"

namespace adjoint {
namespace {

constexpr double kPi = std::numbers::pi;

class Window {
 public:
  Window(Call& c, int options_at)
      : options_(c, options_at), n_(c.integer(0)), periodic_(c.flag(1)) {
    dtype_ = options_.dtype(default_dtype());
    if (is_complex(dtype_))
      not_implemented("\"", c.op.name, "\" not implemented for '", dtype_, "'");
    if (!is_floating(dtype_))
      runtime_error(c.op.name, " expects floating point dtypes, got: ", dtype_);
    if (n_ < 0)
      runtime_error(c.op.name, " requires non-negative window_length, got window_length=", n_);
  }
  // f(k / last) for the samples k, where the window ends at `last`: a periodic window is one sample
  // short of the symmetric one.
  template <class F>
  Tensor samples(F f, double if_alone = 1) const {
    Tensor t = empty(Dims{n_}, DType::Float64);
    const double last = static_cast<double>(periodic_ ? n_ : n_ - 1);
    auto* values = t.data<double>();
    for (int64_t k = 0; k < n_; ++k)
      values[k] = n_ == 1 ? if_alone : f(static_cast<double>(k) / last);
    return t;
  }
  Value finish(const Tensor& samples) const { return options_.finish(cast(samples, dtype_)); }

 private:
  Options options_;
  int64_t n_;
  bool periodic_;
  DType dtype_;
};

template <class F>
Value window(Call& c, int options_at, F f) {
  const Window w(c, options_at);
  return w.finish(w.samples(f));
}

}  // namespace

static const Op& hann_window_ =
    def("hann_window(window_length: int, periodic: bool = True, " ADJOINT_OPTIONS,
        "Hann's window, one half of 1 - cos(2 pi k / N).")
        .forward([](Call& c) -> Value {
          return window(c, 2, [](double x) { return 0.5 - 0.5 * std::cos(2 * kPi * x); });
        })
        .function_only()
        .no_out();

static const Op& hamming_window_ =
    def("hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, "
        "beta: float = 0.46, " ADJOINT_OPTIONS,
        "Hamming's window, alpha - beta cos(2 pi k / N).")
        .forward([](Call& c) -> Value {
          const double alpha = c.real(2), beta = c.real(3);
          return window(c, 4, [=](double x) { return alpha - beta * std::cos(2 * kPi * x); });
        })
        .function_only()
        .no_out();

static const Op& bartlett_window_ =
    def("bartlett_window(window_length: int, periodic: bool = True, " ADJOINT_OPTIONS,
        "Bartlett's window, a triangle.")
        .forward([](Call& c) -> Value {
          return window(c, 2, [](double x) { return x <= 0.5 ? 2 * x : 2 - 2 * x; });
        })
        .function_only()
        .no_out();

static const Op& blackman_window_ =
    def("blackman_window(window_length: int, periodic: bool = True, " ADJOINT_OPTIONS,
        "Blackman's window, 0.42 - 0.5 cos(2 pi k / N) + 0.08 cos(4 pi k / N).")
        .forward([](Call& c) -> Value {
          return window(c, 2, [](double x) {
            return 0.42 - 0.5 * std::cos(2 * kPi * x) + 0.08 * std::cos(4 * kPi * x);
          });
        })
        .function_only()
        .no_out();

static const Op& kaiser_window_ =
    def("kaiser_window(window_length: int, periodic: bool = True, beta: float = "
        "12.0, " ADJOINT_OPTIONS,
        "Kaiser's window, i0(beta sqrt(1 - (2 k / N - 1)^2)) / i0(beta).")
        .forward([](Call& c) -> Value {
          const Window w(c, 3);
          const double beta = c.real(2);
          // Both factors scaled by exp(-|x|), which may be too large otherwise.
          Tensor x = w.samples([=](double x) { return beta * std::sqrt(4 * x * (1 - x)); }, beta);
          GradMode off(false);
          Tensor whole = op<"special_i0e">(scalar_tensor(beta, DType::Float64));
          Tensor grown = op<"exp">(op<"abs">(x).tensor() - std::abs(beta));
          return w.finish(op<"special_i0e">(x).tensor() / whole * grown);
        })
        .function_only()
        .no_out();

}  // namespace adjoint
