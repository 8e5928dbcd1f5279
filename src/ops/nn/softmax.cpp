// softmax and log_softmax. Read next: rows.h for how rows are found, loss.cpp for who uses them.
#include "ops/nn/rows.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

template <bool Log>
Value softmax_forward(Call& c) {
  Tensor x = c.tensor(0);
  wrap_dim(c.integer(1), x.ndim());
  DType result = c[2].is_none() ? x.dtype() : c[2].dtype();
  row_dtype(Log ? "log_softmax" : "softmax", result);
  return map_rows(Log ? "log_softmax_row" : "softmax_row",
                  Log ? "log_softmax_columns" : "softmax_columns", &x, 1, c.integer(1), result);
}

template <bool Log>
Value softmax_backward(Call& c) {
  Tensor inputs[2] = {c.tensor(0), c.tensor(1)};
  if (!(inputs[0].shape() == inputs[1].shape())) {
    throw std::logic_error("softmax_backward: the gradient is shaped otherwise than the result");
  }
  return map_rows(Log ? "log_softmax_row_grad" : "softmax_row_grad",
                  Log ? "log_softmax_columns_grad" : "softmax_columns_grad", inputs, 2,
                  c.integer(2), inputs[1].dtype());
}

Tensor sum_along(T t, const Value& dim) { return op<"sum">(t, Dims{dim.integer()}, true); }

}  // namespace

static const Op& softmax_ =
    def("softmax(input, dim: int, dtype: dtype? = None)",
        "exp(input) divided by its sum along `dim`; `dtype` converts the input first.")
        .forward(softmax_forward<false>)
        .grad(0, output(),
              [](T g, C c) -> Tensor { return op<"_softmax_backward">(g, c.out(), c.in(1)); })
        .jvp([](C c, const Tensor* t) -> Value {
          return op<"_softmax_backward">(t[0], c.out(), c.in(1));
        })
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& log_softmax_ =
    def("log_softmax(input, dim: int, dtype: dtype? = None)",
        "The logarithm of softmax(input, dim), without overflow or loss of digits.")
        .forward(softmax_forward<true>)
        .grad(0, output(),
              [](T g, C c) -> Tensor { return op<"_log_softmax_backward">(g, c.out(), c.in(1)); })
        .jvp([](C c, const Tensor* t) -> Value {
          return t[0] - sum_along(op<"exp">(c.out()).tensor() * t[0], c.in(1));
        })
        .batch(batch::along)
        .depends(Depends::Along);

// The Jacobian diag(y) - y y^T is symmetric: the gradient with respect to g is the same op.
static const Op& softmax_backward_ =
    def("_softmax_backward(g, y, dim: int)", "y * (g - sum(g * y)), the derivative of softmax.")
        .forward(softmax_backward<false>)
        .grad(0, input(1),
              [](T u, C c) -> Tensor { return op<"_softmax_backward">(u, c.in(1), c.in(2)); })
        .grad(1, input(0) | input(1),
              [](T u, C c) -> Tensor {
                Tensor g = c.in(0), y = c.in(1);
                return u * (g - sum_along(g * y, c.in(2))) - g * sum_along(u * y, c.in(2));
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor g = c.in(0), y = c.in(1);
          Tensor sum = t[0] ? op<"_softmax_backward">(t[0], y, c.in(2)).tensor() : Tensor();
          if (!t[1]) return sum;
          Tensor part = t[1] * (g - sum_along(g * y, c.in(2))) - y * sum_along(g * t[1], c.in(2));
          return sum ? sum + part : part;
        })
        .internal()
        .batch(batch::along)
        .depends(Depends::Along);

static const Op& log_softmax_backward_ =
    def("_log_softmax_backward(g, y, dim: int)",
        "g - exp(y) * sum(g), the derivative of log_softmax.")
        .forward(softmax_backward<true>)
        .grad(0, input(1),
              [](T u, C c) -> Tensor {
                return u - sum_along(op<"exp">(c.in(1)).tensor() * u, c.in(2));
              })
        .grad(1, input(0) | input(1),
              [](T u, C c) -> Tensor {
                return -(u * op<"exp">(c.in(1)).tensor() * sum_along(c.tensor(0), c.in(2)));
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor sum =
              t[0] ? op<"_log_softmax_backward">(t[0], c.in(1), c.in(2)).tensor() : Tensor();
          if (!t[1]) return sum;
          Tensor part = op<"exp">(c.in(1)).tensor() * t[1] * sum_along(c.tensor(0), c.in(2));
          return sum ? sum - part : -part;
        })
        .internal()
        .batch(batch::along)
        .depends(Depends::Along);

}  // namespace adjoint
