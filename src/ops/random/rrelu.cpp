// The random slopes of rrelu: drawn for the elements that have one, in order.
#include <cmath>

#include "dispatch/op.h"
#include "python/gil.h"
#include "random/generator.h"

namespace adjoint {

random::Generator& generator_of(const Value& v);  // see random.cpp

namespace {

template <class S>
void draw_slopes(random::Generator& g, const S* x, S* out, int64_t n, double lower, double upper) {
  std::lock_guard lock(g.mutex);
  for (int64_t i = 0; i < n; ++i) {
    // 53 random bits, as for a double between two numbers.
    out[i] =
        x[i] <= 0
            ? static_cast<S>(
                  std::ldexp(static_cast<double>(g.random64() & ((uint64_t{1} << 53) - 1)), -53) *
                      (upper - lower) +
                  lower)
            : S(1);
  }
}

}  // namespace

static const Op& rrelu_slopes_ =
    def("_rrelu_slopes(input, lower: float, upper: float, *, generator: any? = None)",
        "A number drawn from [lower, upper) where the input is not positive, 1 elsewhere.")
        .forward([](Call& c) -> Value {
          const DType d = compute_dtype(c.tensor(0).dtype());
          Tensor x = contiguous(cast(c.tensor(0), d)), out = empty(x.shape(), d);
          random::Generator& g = generator_of(c[3]);
          const int64_t n = x.numel();
          const double lower = c.real(1), upper = c.real(2);
          if (d == DType::Float32) {
            draw_slopes(g, x.data<float>(), out.data<float>(), n, lower, upper);
          } else {
            draw_slopes(g, x.data<double>(), out.data<double>(), n, lower, upper);
          }
          return cast(out, c.tensor(0).dtype());
        })
        .function_only()
        .no_out()
        .draws(Draws::Batch);

}  // namespace adjoint
