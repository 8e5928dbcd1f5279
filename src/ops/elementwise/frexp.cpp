// A number as a mantissa and a power of two. Read next: exponential.cpp for ldexp.
#include <cmath>

#include "dispatch/op.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

template <class F>
void split(const Tensor& x, const Tensor& mantissa, const Tensor& exponent) {
  const F* in = x.data<F>();
  F* part = mantissa.data<F>();
  int32_t* power = exponent.data<int32_t>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    int e = 0;  // of what is not finite, too
    part[i] = std::frexp(in[i], &e);
    power[i] = std::isfinite(in[i]) ? e : 0;
  }
}

Value frexp_forward(Call& c) {
  Tensor t = c.tensor(0);
  if (!is_floating(t.dtype()))
    runtime_error("torch.frexp() only supports floating-point dtypes, got ", t.dtype());
  Tensor x = contiguous(cast(t, compute_dtype(t.dtype())));
  Tensor mantissa = empty(t.shape(), x.dtype()), exponent = empty(t.shape(), DType::Int32);
  x.dtype() == DType::Float32 ? split<float>(x, mantissa, exponent)
                              : split<double>(x, mantissa, exponent);
  return Tensors{cast(mantissa, t.dtype()), exponent};
}

// Between powers of two the exponent does not move. Float64, since float32 has no 2^1023.
Tensor scaled(const Tensor& t, const Tensor& exponent) {
  Tensor power = op<"exp2">(-op<"_to_copy">(exponent, DType::Float64).tensor());
  return op<"_to_copy">(op<"mul">(t, power), t.dtype());
}

}  // namespace

static const Op& frexp_ =
    def("frexp(input)",
        "Mantissas from 0.5 to 1 and exponents (int32): `input = mantissa * 2**exponent`.")
        .forward(frexp_forward)
        .vjp(output(1),
             [](Context& c, Tensor* grads) {
               if (c.has_grad(0)) grads[0] = scaled(c.grad(0), c.out(1));
             })
        .jvp([](Context& c, const Tensor* t) -> Value { return scaled(t[0], c.out(1)); })
        .results({"mantissa", "exponent"})
        .batch(batch::as_is)
        .depends(Depends::Pointwise);

}  // namespace adjoint
