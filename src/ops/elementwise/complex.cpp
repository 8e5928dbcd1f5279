// Complex numbers and their parts. `real`, `imag`, `view_as_real` and `view_as_complex` share the
// input's memory; a complex element is two real ones, the real part first.
#include "dispatch/elementwise_forward.h"
#include "dispatch/op.h"
#include "dispatch/view.h"
#include "ops/elementwise/fused.h"
#include "ops/sparse/rules.h"
#include "tensor/checked.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

// One part of every element: half the element size, so twice the strides.
Tensor part_of(const Tensor& t, int part) {
  Dims strides(t.strides());
  for (int64_t& s : strides) s = stepped(s, 2);
  return make_view_as(t, t.shape(), strides, 2 * t.offset() + part, real_dtype(t.dtype()));
}

Value view_as_real_forward(Call& c) {
  Tensor t = c.tensor(0);
  if (!is_complex(t.dtype())) {
    runtime_error("view_as_real is only supported for complex tensors, not for ", t.dtype());
  }
  Dims shape(t.shape()), strides(t.strides());
  for (int64_t& s : strides) s = stepped(s, 2);
  shape.push_back(2);
  strides.push_back(1);
  return make_view_as(t, shape, strides, 2 * t.offset(), real_dtype(t.dtype()));
}

Value view_as_complex_forward(Call& c) {
  Tensor t = c.tensor(0);
  if (t.dtype() != DType::Float32 && t.dtype() != DType::Float64) {
    runtime_error(
        "view_as_complex is only supported for floating point tensors of 32 or 64 bits, "
        "but got a tensor of dtype ",
        t.dtype());
  }
  int last = t.ndim() - 1;
  if (last < 0) runtime_error("Input tensor must have one or more dimensions");
  if (t.size(last) != 2) {
    runtime_error("Tensor must have a last dimension of size 2, but the shape is ", t.shape());
  }
  if (t.stride(last) != 1) {
    runtime_error("Tensor must have a last dimension with stride 1, but the strides are ",
                  t.strides(), "; use .contiguous()");
  }
  Dims shape(t.shape()), strides(t.strides());
  shape.erase(last);
  strides.erase(last);
  for (int64_t& s : strides) {
    if (s % 2) {
      runtime_error(
          "Tensor must have a stride divisible by 2 for all but last dimension, but the "
          "strides are ",
          t.strides(), "; use .contiguous()");
    }
    s /= 2;
  }
  if (t.offset() % 2)
    runtime_error("Tensor must have a storage_offset divisible by 2, got ", t.offset(),
                  "; use .clone()");
  return make_view_as(t, shape, strides, t.offset() / 2, complex_dtype(t.dtype()));
}

void check_parts(const Tensor& re, const Tensor& im) {
  if (re.dtype() != im.dtype()) {
    runtime_error("Expected object of scalar type ", re.dtype(), " but got scalar type ",
                  im.dtype(), " for second argument");
  }
  if (re.dtype() != DType::Float32 && re.dtype() != DType::Float64) {
    runtime_error("Expected both inputs to be Float or Double tensors but got ", re.dtype(),
                  " and ", im.dtype());
  }
}

Value complex_forward(Call& c) {
  Tensor re = c.tensor(0), im = c.tensor(1);
  check_parts(re, im);
  Dims shape = broadcast_shapes(re.shape(), im.shape());
  Tensor out = empty(shape, complex_dtype(re.dtype()));
  GradMode off(false);
  copy_into(part_of(out, 0), op<"expand">(re, shape));
  copy_into(part_of(out, 1), op<"expand">(im, shape));
  return out;
}

Tensor times_i(T g) { return g * Value(std::complex<double>(0, 1)); }

}  // namespace

static const Op& conj_ =
    def("conj(input)", "The complex conjugate; a real tensor is returned as it is.")
        .forward([](Call& c) -> Value {
          static const Kernel& k = kernel_named("conj");
          if (!is_complex(c.tensor(0).dtype())) return c[0];
          return run_kernel(k, c.args, 1, Common, c.out, "conj");
        })
        .grad(0, nothing, [](T g, C) -> Tensor { return op<"conj">(g); })
        .linear()
        .no_out()
        .batch(batch::as_is)
        .sparse(sparse::linear_on_entries)
        .any_dtype();

static const Op& conj_physical_ =
    def("conj_physical(input)", "The complex conjugate, in memory of its own.")
        .forward([](Call& c) -> Value {
          static const Kernel &complex = kernel_named("conj"), &real = kernel_named("positive");
          bool z = is_complex(c.tensor(0).dtype());
          return run_kernel(z ? complex : real, c.args, 1, Common, c.out, "conj_physical");
        })
        .grad(0, nothing, [](T g, C) -> Tensor { return op<"conj">(g); })
        .linear()
        .inplace()
        .batch(batch::as_is)
        .out_dtype(OutDType::Input)
        .sparse(sparse::linear_on_entries)
        .any_dtype();

static const Op& real_ =
    def("real(input)", "The real part: a view; a real tensor is returned as it is.")
        .forward([](Call& c) -> Value {
          if (!is_complex(c.tensor(0).dtype())) return c[0];
          return part_of(c.tensor(0), 0);
        })
        .grad(0, nothing, [](T g, C c) -> Tensor { return op<"_to_copy">(g, c.dtype(0)); })
        .linear()
        .view()
        .function_only()
        .node("SelectBackward0")
        .batch(batch::as_is)
        .depends(Depends::Pointwise)
        .sparse(sparse::linear_on_entries);

static const Op& imag_ =
    def("imag(input)", "The imaginary part: a view; refused for real tensors.")
        .forward([](Call& c) -> Value {
          if (!is_complex(c.tensor(0).dtype())) {
            runtime_error("imag is not implemented for tensors with non-complex dtypes, here ",
                          c.tensor(0).dtype());
          }
          return part_of(c.tensor(0), 1);
        })
        .grad(0, nothing, [](T g, C c) { return times_i(op<"_to_copy">(g, c.dtype(0))); })
        .linear()
        .view()
        .function_only()
        .node("SelectBackward0")
        .batch(batch::as_is)
        .depends(Depends::Pointwise)
        .sparse(sparse::linear_on_entries);

static const Op& view_as_real_ =
    def("view_as_real(input)", "A complex tensor as a real one with a last axis of length two.")
        .forward(view_as_real_forward)
        .grad(0, nothing,
              [](T g, C) -> Tensor {
                // Nothing is contiguous whatever its strides are, which a view would look at.
                if (!g.numel())
                  return op<"complex">(op<"select">(g, -1, 0), op<"select">(g, -1, 1));
                return op<"view_as_complex">(op<"contiguous">(g));
              })
        .linear()
        .view()
        .function_only()
        .batch(batch::as_is)
        .depends(Depends::PairSplit);

static const Op& view_as_complex_ =
    def("view_as_complex(input)", "A real tensor with a last axis of length two as a complex one.")
        .forward(view_as_complex_forward)
        .grad(0, nothing, [](T g, C) -> Tensor { return op<"view_as_real">(g); })
        .linear()
        .view()
        .function_only()
        .batch([](Call& c, const int*) -> Value {
          if (c.tensor(0).ndim() == 1)
            runtime_error("Input tensor must have one or more dimensions");
          return apply(c.op, c.args);
        })
        .depends(Depends::PairJoined)
        .autocast(Autocast::Float32);

static const Op& complex_ =
    def("complex(real, imag)", "A complex tensor from its real and imaginary parts.")
        .forward(complex_forward)
        .vjp(nothing,
             [](C c, Tensor* grads) {
               if (c.needs(0)) grads[0] = op<"real">(c.grad());
               if (c.needs(1)) grads[1] = op<"imag">(c.grad());
             })
        .jvp([](C, const Tensor* t) -> Value {
          Tensor re = t[0] ? t[0] : zeros_of(t[1]), im = t[1] ? t[1] : zeros_of(t[0]);
          return op<"complex">(re, im);
        })
        .function_only()
        .batch(batch::pointwise)
        .depends(Depends::Pointwise);

static const Op& polar_ =
    def("polar(abs, angle)", "A complex tensor from its absolute value and its angle.")
        .forward([](Call& c) -> Value {
          Tensor size = c.tensor(0);
          check_parts(size, c.tensor(1));
          return op<"complex">(size * op<"cos">(c[1]), size * op<"sin">(c[1]));
        })
        .function_only()
        .autocast(Autocast::Float32);

// The angle of z turns by Im(dz / z); that of real numbers only jumps.
static const Op& angle_ =
    def("angle(input)", "The angle of complex numbers in radians; pi for negative real numbers.")
        .elementwise("angle", ToFloat)
        .grad(0, input(0),
              [](T g, C c) -> Tensor {
                Tensor z = c.in(0);
                if (!is_complex(z.dtype())) return zeros_of(g);
                Tensor slope = times_i(z) / op<"square">(op<"abs">(z));
                return op<"where">(op<"eq">(z, 0), 0.0, g * slope);
              })
        .jvp([](C c, const Tensor* t) -> Value {
          Tensor z = c.in(0);
          if (!is_complex(z.dtype())) return zeros_of(t[0]);
          return op<"imag">(t[0] / z);
        });

static const Op& resolve_conj_ =
    def("resolve_conj(input)", "The tensor itself: conj() computes at once here.")
        .forward([](Call& c) -> Value { return c[0]; })
        .no_out();

static const Op& resolve_neg_ =
    def("resolve_neg(input)", "The tensor itself: negation is computed at once here.")
        .forward([](Call& c) -> Value { return c[0]; })
        .no_out();

}  // namespace adjoint
