// How gamma and Dirichlet samples move with their parameters, as ops: what the derivatives of
// `_standard_gamma` and `_sample_dirichlet` in random.cpp are made of. They draw nothing, so vmap
// treats them like any elementwise op. Read random/sample_derivatives.h first.
#include <array>

#include "dispatch/op.h"
#include "python/gil.h"
#include "random/errors.h"
#include "random/sample_derivatives.h"

namespace adjoint {
namespace {

using C = Context&;
using T = const Tensor&;

[[noreturn]] Tensor no_second(T, C) {
  not_implemented(
      "the second derivative of a gamma or Dirichlet sample by its parameter. fix: take one "
      "derivative of the sample, or differentiate the density instead");
}
// The operands with one shape and dtype, in order.
template <size_t N>
std::array<Tensor, N> together(const Tensor (&given)[N]) {
  Dims shape;
  for (const Tensor& t : given) shape = broadcast_shapes(shape, t.shape());
  std::array<Tensor, N> found;
  for (size_t i = 0; i < N; ++i) {
    found[i] = contiguous(op<"expand">(cast(given[i], given[0].dtype()), shape));
  }
  return found;
}
template <class F>
void computing(int64_t n, F compute) {
  try {
    WithoutGil release(n >= kReleaseGil / 64);  // an element takes microseconds
    compute();
  } catch (const random::unsupported_dtype& e) {
    not_implemented(e.what());
  }
}

}  // namespace

static const Op& standard_gamma_grad_ =
    def("_standard_gamma_grad(input, output: Tensor)",
        "How `output`, drawn by `_standard_gamma`, moves with its parameter `input`.")
        .forward([](Call& c) -> Value {
          GradMode off(false);
          auto [alpha, x] = together({c.tensor(0), c.tensor(1)});
          Tensor out = empty(x.shape(), x.dtype());
          computing(out.numel(), [&, a = alpha.bytes(), q = x.bytes(), o = out.bytes(),
                                  d = x.dtype()] { random::gamma_grad(d, o, out.numel(), a, q); });
          return out;
        })
        .partial(0, nothing, no_second)
        .partial(1, nothing, no_second)
        .function_only()
        .no_out();

static const Op& dirichlet_grad_ =
    def("_dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor)",
        "How a part `x` of a Dirichlet sample moves with its parameter `alpha`; `total` is the sum "
        "of the parameters.")
        .forward([](Call& c) -> Value {
          GradMode off(false);
          auto [x, alpha, total] = together({c.tensor(0), c.tensor(1), c.tensor(2)});
          Tensor out = empty(x.shape(), x.dtype());
          computing(out.numel(),
                    [&, q = x.bytes(), a = alpha.bytes(), s = total.bytes(), o = out.bytes(),
                     d = x.dtype()] { random::dirichlet_grad(d, o, out.numel(), q, a, s); });
          return out;
        })
        .partial(0, nothing, no_second)
        .partial(1, nothing, no_second)
        .partial(2, nothing, no_second)
        .function_only()
        .no_out();

}  // namespace adjoint
