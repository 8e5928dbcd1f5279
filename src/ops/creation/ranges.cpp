// Evenly spaced values and identity matrices.
#include <cmath>

#include "dispatch/scalar_range.h"
#include "kernels/convert.h"
#include "ops/creation/options.h"
#include "parallel/pool.h"
#include "python/gil.h"

namespace adjoint {
namespace {

constexpr int64_t kGrain = 1 << 16;

// Fills a dense tensor by index; f(i) gives a double, an int64_t or a complex<double>.
template <class F>
void generate(const Tensor& t, F f) {
  char* data = t.bytes();
  DType d = t.dtype();
  auto size = static_cast<int64_t>(item_size(d));
  int64_t n = t.numel();
  WithoutGil release(n >= kReleaseGil);
  parallel::parallel_ranges(n, kGrain, [&](int64_t begin, int64_t end) {
    using R = decltype(f(int64_t{0}));
    R block[256];
    for (int64_t i = begin; i < end; i += 256) {
      int64_t m = std::min<int64_t>(256, end - i);
      for (int64_t k = 0; k < m; ++k) block[k] = f(i + k);
      copy_run(data + i * size, size, d, reinterpret_cast<char*>(block), sizeof(R),
               dtype_of<R>::value, m);
    }
  });
}

int64_t count_of(double start, double end, double step) {
  if (step == 0) runtime_error("step must be nonzero");
  if (!std::isfinite(start) || !std::isfinite(end))
    runtime_error("unsupported range: ", start, " -> ", end);
  if (std::isnan(step)) runtime_error("step must not be nan");
  if ((step > 0 && end < start) || (step < 0 && end > start)) {
    runtime_error("upper bound and lower bound inconsistent with step sign: from ", start, " to ",
                  end, " by ", step);
  }
  double n = std::ceil((end - start) / step);
  if (!(n >= 0 && n < 9.2e18)) runtime_error("invalid size, possible overflow: ", n);
  return static_cast<int64_t>(n);
}

int64_t integer_count(int64_t start, int64_t end, int64_t step) {
  if (step == 0) runtime_error("step must be nonzero");
  if ((step > 0 && end < start) || (step < 0 && end > start)) {
    runtime_error("upper bound and lower bound inconsistent with step sign: from ", start, " to ",
                  end, " by ", step);
  }
  __int128 span = static_cast<__int128>(end) - start;
  __int128 n = (span + step + (step > 0 ? -1 : 1)) / step;
  if (n > INT64_MAX) runtime_error("invalid size, possible overflow: from ", start, " to ", end);
  return static_cast<int64_t>(n);
}

Value range(Call& c, Value start, Value end, Value step, int options_at) {
  Options options(c, options_at);
  bool integers = true;
  for (const Value* v : {&start, &end, &step}) {
    if (v->kind() == Value::Complex)
      runtime_error("value cannot be converted to type double without overflow: arange of complex");
    integers &= v->kind() != Value::Double;
  }
  DType d = options.dtype(integers ? DType::Int64 : default_dtype());
  if (d == DType::Bool || is_complex(d))
    not_implemented("\"arange_cpu\" not implemented for '", d, "'");
  if (is_integral(d)) {
    for (const Value* v : {&start, &end, &step}) {  // floats are cut to integers first
      if (v->kind() == Value::Double && !(std::abs(v->real()) < 9.2233720368547748e18))
        runtime_error("unsupported range: ", start.real(), " -> ", end.real());
    }
    int64_t a = start.integer(), b = step.integer();
    if (b == 0 && step.real() != 0)
      value_error("step must be nonzero, but ", step.real(), " is cut to 0 in ", d);
    int64_t n = d == DType::Int64 || integers ? integer_count(a, end.integer(), b)
                                              : count_of(start.real(), end.real(), step.real());
    Tensor t = empty(Dims{n}, d);
    generate(t, [=](int64_t i) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) +
                                  static_cast<uint64_t>(i) * static_cast<uint64_t>(b));
    });
    return options.finish(t);
  }
  double a = start.real(), b = step.real();
  int64_t n = integers ? integer_count(start.integer(), end.integer(), step.integer())
                       : count_of(a, end.real(), b);
  Tensor t = empty(Dims{n}, d);
  generate(t, [=](int64_t i) { return std::fma(static_cast<double>(i), b, a); });
  return options.finish(t);
}

// a * b + c, rounded once where a fused multiply-add exists, as PyTorch's kernels do.
template <class S, class R>
R fused(S a, S b, R c) {
  if constexpr (std::is_floating_point_v<S> && std::is_same_v<S, R>) return std::fma(a, b, c);
  return static_cast<R>(a * b + c);
}

// The ends are met exactly: the second half counts back from the end.
template <class R, class Step>
auto spaced(R start, R end, int64_t steps) {
  Step step = steps > 1 ? static_cast<Step>((end - start) / static_cast<Step>(steps - 1)) : Step(0);
  return [=](int64_t i) -> R {
    if (i < steps / 2 || steps == 1) return fused(step, static_cast<Step>(i), start);
    return fused(-step, static_cast<Step>(steps - 1 - i), end);
  };
}

int64_t checked_steps(const Value& v) {
  if (v.integer() < 0) runtime_error("number of steps must be non-negative, got ", v.integer());
  return v.integer();
}

DType spaced_dtype(const Options& o, const Value& a, const Value& b) {
  bool z = a.kind() == Value::Complex || b.kind() == Value::Complex;
  DType d = o.dtype(z ? complex_dtype(default_dtype()) : default_dtype());
  if (z && !is_complex(d))
    runtime_error("linspace: inferred dtype is complex, which can't be cast to ", d);
  return d;
}

// f turns a spaced value into the one that is stored.
template <class F>
Tensor spaced_tensor(Call& c, DType d, int64_t steps, F f) {
  require_fits(c[0], d);
  require_fits(c[1], d);
  Tensor t = empty(Dims{steps}, d);
  double a = c[0].real(), b = c[1].real();
  if (is_complex(d)) {
    auto at =
        spaced<std::complex<double>, std::complex<double>>(c[0].complex(), c[1].complex(), steps);
    generate(t, [=](int64_t i) { return f(at(i)); });
  } else if (d == DType::Float64) {
    auto at = spaced<double, double>(a, b, steps);
    generate(t, [=](int64_t i) { return f(at(i)); });
  } else if (is_integral(d)) {
    auto at = spaced<double, double>(std::trunc(a), std::trunc(b), steps);
    generate(t, [=](int64_t i) { return f(at(i)); });
  } else {
    auto at = spaced<float, float>(static_cast<float>(a), static_cast<float>(b), steps);
    generate(t, [=](int64_t i) { return f(at(i)); });
  }
  return t;
}

}  // namespace

static const Op& arange_ =
    def("arange(end: Scalar, " ADJOINT_OPTIONS,
        "The numbers 0, 1, ... below `end`; integers unless an argument is a float.")
        .forward([](Call& c) -> Value { return range(c, Value(0), c[0], Value(1), 1); })
        .function_only();
static const Op& arange_start_ =
    def("arange.start(start: Scalar, end: Scalar, " ADJOINT_OPTIONS,
        "The numbers from `start` in steps of one, below `end`.")
        .forward([](Call& c) -> Value { return range(c, c[0], c[1], Value(1), 2); })
        .function_only();
static const Op& arange_step_ =
    def("arange.start_step(start: Scalar, end: Scalar, step: Scalar, " ADJOINT_OPTIONS,
        "The numbers start, start + step, ... before `end`.")
        .forward([](Call& c) -> Value { return range(c, c[0], c[1], c[2], 3); })
        .function_only();

static const Op& linspace_ =
    def("linspace(start: Scalar, end: Scalar, steps: int, " ADJOINT_OPTIONS,
        "`steps` evenly spaced numbers from `start` to `end`, both included.")
        .forward([](Call& c) -> Value {
          Options options(c, 3);
          int64_t steps = checked_steps(c[2]);
          return options.finish(
              spaced_tensor(c, spaced_dtype(options, c[0], c[1]), steps, [](auto x) { return x; }));
        })
        .function_only();

static const Op& logspace_ =
    def("logspace(start: Scalar, end: Scalar, steps: int, base: float = 10.0, " ADJOINT_OPTIONS,
        "`base` to the power of `steps` evenly spaced exponents from `start` to `end`.")
        .forward([](Call& c) -> Value {
          Options options(c, 4);
          int64_t steps = checked_steps(c[2]);
          double base = c.real(3);
          return options.finish(
              spaced_tensor(c, spaced_dtype(options, c[0], c[1]), steps, [base](auto x) {
                using R = decltype(x);
                if constexpr (std::is_same_v<R, float>)
                  return std::pow(static_cast<float>(base), x);
                else
                  return std::pow(R(base), x);
              }));
        })
        .function_only();

namespace {

// Tensors of no axes are numbers, which the other forms take.
Value refuse_axes(Call& c) {
  auto axes = [&](int i) { return c[i].is_tensor() ? c.tensor(i).ndim() : 0; };
  runtime_error(c.op.name,
                " only supports 0-dimensional start and end tensors, but got start with ", axes(0),
                " dimension(s) and end with ", axes(1), " dimension(s).");
}

}  // namespace

static const Op& linspace_tensors_ =
    def("linspace.tensors(start: Operand, end: Operand, steps: int, " ADJOINT_OPTIONS,
        "Ends with axes are refused.")
        .forward(refuse_axes)
        .function_only();

static const Op& logspace_tensors_ = def("logspace.tensors(start: Operand, end: Operand, steps: "
                                         "int, base: float = 10.0, " ADJOINT_OPTIONS,
                                         "Ends with axes are refused.")
                                         .forward(refuse_axes)
                                         .function_only();

namespace {

Value identity(Call& c, int64_t n, int64_t m, int options_at) {
  Options options(c, options_at);
  if (n < 0) runtime_error("n must be greater or equal to 0, got ", n);
  if (m < 0) runtime_error("m must be greater or equal to 0, got ", m);
  DType d = options.dtype(default_dtype());
  Tensor t = zeros(Dims{n, m}, d);
  for (int64_t i = 0; i < std::min(n, m); ++i)
    store_scalar(d, t.bytes() + (i * m + i) * static_cast<int64_t>(item_size(d)), int64_t{1});
  return options.finish(t);
}

}  // namespace

static const Op& eye_ =
    def("eye(n: int, " ADJOINT_OPTIONS, "The identity matrix of size n.")
        .forward([](Call& c) -> Value { return identity(c, c.integer(0), c.integer(0), 1); })
        .function_only();
static const Op& eye_m_ =
    def("eye.m(n: int, m: int, " ADJOINT_OPTIONS,
        "A matrix of n rows and m columns with ones on the diagonal and zeros elsewhere.")
        .forward([](Call& c) -> Value { return identity(c, c.integer(0), c.integer(1), 2); })
        .function_only();

}  // namespace adjoint
