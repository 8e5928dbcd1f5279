// Covariances and correlations of the rows of a matrix, written from ops. Variances are in
// statistics.cpp.
#include "dispatch/program_recorder.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;

Tensor checked_weights(const Value& given, int64_t n, bool whole, const char* name) {
  if (given.is_none()) return Tensor();
  Tensor w = given.tensor();
  if (w.ndim() > 1)
    runtime_error("cov(): expected ", name, " to have one or fewer dimensions, got ", w.ndim());
  if (whole != is_integral(w.dtype())) {
    runtime_error("cov(): expected ", name, " to have ", whole ? "integral" : "floating point",
                  " dtype but got ", name, " with ", w.dtype(), " dtype");
  }
  if (w.numel() != n) {
    runtime_error("cov(): expected ", name, " to have the same numel as there are observations in ",
                  "the input but got ", w.numel(), " != ", n);
  }
  GradMode off(false);
  refuse_recording("cov() looks at the values of ", name, "; fix: compute it outside");
  if (n && op<"any">(op<"lt">(w, 0)).tensor().data<bool>()[0])
    runtime_error("cov(): ", name, " cannot be negative");
  return w;
}

Tensor covariance(T given, const Value& correction, const Value& fweights, const Value& aweights) {
  if (given.ndim() > 2) {
    runtime_error("cov(): expected input to have two or fewer dimensions but got an input with ",
                  given.ndim(), " dimensions");
  }
  if (given.dtype() == DType::Bool) runtime_error("cov(): bool dtype is not supported for input");
  Tensor x = given.ndim() < 2 ? op<"reshape">(given, Dims{1, given.numel()}).tensor() : given;
  int64_t n = x.size(1);
  Tensor w = checked_weights(fweights, n, true, "fweights");
  Tensor a = checked_weights(aweights, n, false, "aweights");
  if (a) w = w ? w * a : a;
  double off = correction.real();
  Value count = w ? Value(op<"sum">(w)) : Value(static_cast<double>(n));
  if (n == 0) count = Value(0.0);
  Tensor weighted = w ? x * w : x;
  Tensor mean = op<"sum">(weighted, Dims{1}, true).tensor() / count;
  Tensor centred = x - mean;
  Value freedom;
  if (w && n) {
    Tensor lost = a && off != 0 ? op<"sum">(w * a).tensor() / count * off : Tensor();
    freedom = lost ? op<"sub">(count, lost) : op<"sub">(count, off);
    freedom = op<"clamp_min">(freedom, 0);
  } else {
    freedom = Value(std::max(static_cast<double>(n) - off, 0.0));
  }
  Tensor other = op<"conj">(op<"transpose">(w ? centred * w : centred, 0, 1));
  return op<"squeeze">(op<"matmul">(centred, other).tensor() / freedom);
}

}  // namespace

static const Op& cov_ =
    def("cov(input, *, correction: int = 1, fweights: Tensor? = None, aweights: Tensor? = None)",
        "The covariances of the rows of a matrix, whose columns are observations that occur "
        "`fweights` times and count with `aweights`.")
        .forward([](Call& c) -> Value { return covariance(c.tensor(0), c[1], c[2], c[3]); })
        .no_out()
        .batch(batch::each_sample)
        .autocast(Autocast::Inside)
        .any_dtype();

static const Op& corrcoef_ =
    def("corrcoef(input)",
        "The correlations of the rows of a matrix, whose columns are "
        "observations.")
        .forward([](Call& c) -> Value {
          if (c.tensor(0).ndim() > 2) {
            runtime_error(
                "corrcoef(): expected input to have two or fewer dimensions but got an input with ",
                c.tensor(0).ndim(), " dimensions");
          }
          Tensor cov = covariance(c.tensor(0), Value(1), {}, {});
          if (cov.ndim() == 0) return cov / cov;
          Tensor spread = op<"diagonal">(cov);
          if (is_complex(cov.dtype())) spread = op<"real">(spread);
          spread = op<"sqrt">(spread);
          Tensor out = cov / op<"unsqueeze">(spread, 1).tensor() / spread;
          if (!is_complex(out.dtype())) return op<"clamp">(out, -1, 1);
          auto limited = [](const Value& part) -> Tensor { return op<"clamp">(part, -1, 1); };
          return op<"complex">(limited(op<"real">(out)), limited(op<"imag">(out)));
        })
        .no_out()
        .batch(batch::each_sample)
        .autocast(Autocast::Inside)
        .any_dtype();

}  // namespace adjoint
