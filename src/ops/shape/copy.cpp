// Copying elements between layouts and dtypes, and the ops made of nothing else.
#include "dispatch/op.h"
#include "dispatch/overlap.h"
#include "dispatch/program_recorder.h"
#include "kernels/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/move_bytes.h"
#include "ops/creation/memory_format.h"
#include "ops/sparse/rules.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"
#include "transforms/batched.h"

#include "tensor/sparse.h"

namespace adjoint {
namespace {

Dims byte_strides(const Tensor& t) {
  Dims s(t.strides());
  for (int64_t& v : s) v *= static_cast<int64_t>(t.itemsize());
  return s;
}

Loop copy_loop_of(DType d) {
  switch (item_size(d)) {
    case 1:
      return [](char* const* p, int64_t n) { move_bytes(p[0], p[1], n); };
    case 2:
      return [](char* const* p, int64_t n) { move_bytes(p[0], p[1], 2 * n); };
    case 4:
      return [](char* const* p, int64_t n) { move_bytes(p[0], p[1], 4 * n); };
    case 8:
      return [](char* const* p, int64_t n) { move_bytes(p[0], p[1], 8 * n); };
    default:
      return [](char* const* p, int64_t n) { move_bytes(p[0], p[1], 16 * n); };
  }
}

}  // namespace

void copy_into(const Tensor& to, const Tensor& from) {
  if ((to->flags | from->flags) & kTransformed) [[unlikely]] {
    if (is_batched(to) || is_batched(from)) refuse_reading_batched("reading the memory of");
  }
  // No op comes here with a sparse operand; whatever else does reads no garbage.
  require_strided(to.get(), "copying");
  require_strided(from.get(), "copying");
  if (to.numel() == 0) return;
  refuse_recording("memory is written by something else than an op");
  Tensor read = in_step(from, to);
  Operand operand[2] = {{to->data, to.dtype(), byte_strides(to)},
                        {read->data, read.dtype(), byte_strides(read)}};
  DType wanted[2] = {to.dtype(), to.dtype()};
  WithoutGil release(to.numel() >= kReleaseGil);
  run_elementwise(copy_loop_of(to.dtype()), wanted, to.shape(), operand, 2);
}

Tensor contiguous(const Tensor& t) {
  if (t.contiguous()) return t;
  if (captured()) [[unlikely]] {
    GradMode off(false);
    return op<"contiguous">(t);
  }
  Tensor copy = empty(t.shape(), t.dtype());
  copy_into(copy, t);
  return copy;
}

static Tensor copy_in(MemoryFormat format, const Tensor& t) {
  Tensor copy = empty_like(t, t.dtype(), format);
  copy_into(copy, t);
  return copy;
}

Tensor cast(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  if (captured()) [[unlikely]] {
    GradMode off(false);
    return op<"_to_copy">(t, dtype);
  }
  Tensor copy = empty_like(t, dtype);
  copy_into(copy, t);
  return copy;
}

Tensor scalar_tensor(const Value& v, DType dtype) {
  Tensor t = empty({}, dtype);
  if (v.kind() == Value::Int || v.kind() == Value::Bool)
    store_scalar(dtype, t->data, v.integer());
  else
    store_scalar(dtype, t->data, v.complex());
  if (captured()) [[unlikely]]
    t_recorder->constant(t.get());
  return t;
}

static const Op& clone_ =
    def("clone(input, *, memory_format: any? = None)",
        "A copy of the tensor, in memory of its own; `memory_format` is the "
        "order of its axes there, by default that of the tensor.")
        .forward([](Call& c) -> Value {
          return copy_in(memory_format_of(c[1], MemoryFormat::Preserve), c.tensor(0));
        })
        .grad(0, nothing, [](const Tensor& g, Context&) { return g; })
        .linear()
        .no_out()
        .batch(batch::as_is)
        .copies()
        .rearranges()
        .sparse(sparse::clone);

static const Op& contiguous_ =
    def("contiguous(input, *, memory_format: any? = None)",
        "The tensor itself if it is row-major in memory (or in the order of `memory_format`), "
        "otherwise a copy that is.")
        .forward([](Call& c) -> Value {
          MemoryFormat format = memory_format_of(c[1], MemoryFormat::Contiguous);
          if (format == MemoryFormat::Preserve)
            runtime_error("preserve memory format is unsupported by the contiguous operator");
          if (lies_in_format(c.tensor(0), format)) return c.tensor(0);
          return copy_in(format, c.tensor(0));
        })
        .grad(0, nothing, [](const Tensor& g, Context&) { return g; })
        .linear()
        .no_out()
        .method_only()
        .node("CloneBackward0")
        .batch(batch::as_is)
        .copies()
        .rearranges();

static const Op& to_copy_ =
    def("_to_copy(input, dtype: dtype)", "A copy in another dtype; the tensor itself if it has it.")
        .forward([](Call& c) -> Value { return cast(c.tensor(0), c[1].dtype()); })
        .grad(0, nothing,
              [](const Tensor& g, Context& c) -> Tensor { return op<"_to_copy">(g, c.dtype(0)); })
        .linear()
        .internal()
        .node("ToCopyBackward0")
        .batch(batch::as_is)
        .called("to")
        .copies()
        .sparse(sparse::linear_on_entries);

// The same values with given strides (dense ones), for laying a gradient out as a base was.
static const Op& with_strides_ =
    def("_with_strides(input, strides: int[])", "A copy with the given strides.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          Tensor copy = empty_strided(t.shape(), c.ints(1), t.dtype());
          copy_into(copy, t);
          return copy;
        })
        .grad(0, nothing, [](const Tensor& g, Context&) { return g; })
        .linear()
        .internal()
        .batch([](Call& c, const int*) -> Value {
          Tensor t = c.tensor(0);
          Dims strides = c.ints(1);
          int64_t sample = t.numel() ? batch::reach({t->shape + 1, t.ndim() - 1}, strides) : 1;
          strides.insert(0, sample);
          return op<"_with_strides">(t, strides);
        })
        .copies()
        .rearranges();

static const Op& copy_ =
    def("copy(input, src|other, non_blocking: bool = False)",
        "The values of `src`, broadcast to the shape and cast to the dtype of `input`.")
        .forward([](Call& c) -> Value {
          Tensor to = c.tensor(0), from = c.tensor(1);
          Tensor out = c.out ? c.out : empty_like(to, to.dtype());
          if (!(broadcast_shapes(to.shape(), from.shape()) == Dims(to.shape()))) {
            runtime_error("The expanded size of the tensor ", to.shape(),
                          " must match the existing size ", from.shape());
          }
          Dims strides(to.ndim(), 0);
          int lead = to.ndim() - from.ndim();
          for (int i = 0; i < from.ndim(); ++i)
            strides[lead + i] = from.size(i) == 1 ? 0 : from.stride(i);
          Tensor seen = on_storage(from->storage, to.shape(), strides, from.offset(), from.dtype());
          copy_into(out, seen);
          return out;
        })
        .grad(0, nothing,
              [](const Tensor& g, Context&) -> Tensor { return zeros(g.shape(), g.dtype()); })
        .grad(1, nothing, [](const Tensor& g, Context&) { return g; })
        .linear()
        .inplace()
        .internal()
        .node("CopyBackwards")
        .batch([](Call& c, const int* axes) -> Value {
          Tensor to = batch::whole(c, axes, 0);
          Tensor from = axes[1] >= 0 ? batch::line_up(c.tensor(1), to.ndim() - 1) : c.tensor(1);
          return op<"copy">(to, from);
        })
        .depends(Depends::Moved)
        .overwrites()
        .sparse(sparse::copy)
        .any_dtype();

static const Op& copy_number_ =
    def("copy.number(input, src|other: Scalar, non_blocking: bool = False)",
        "A number in every element of a tensor like `input`.")
        .forward([](Call& c) -> Value {
          Tensor to = c.tensor(0), out = c.out ? c.out : empty_like(to, to.dtype());
          Tensor number = scalar_tensor(c[1], to.dtype());
          copy_into(out,
                    on_storage(number->storage, to.shape(), Dims(to.ndim(), 0), 0, to.dtype()));
          return out;
        })
        .grad(0, nothing,
              [](const Tensor& g, Context&) -> Tensor { return zeros(g.shape(), g.dtype()); })
        .jvp([](Context&, const Tensor* t) -> Value { return zeros(t[0].shape(), t[0].dtype()); })
        .inplace()
        .writes_all()
        .internal()
        .node("CopyBackwards")
        .batch([](Call& c, const int* axes) -> Value {
          return op<"fill">(batch::whole(c, axes, 0), c[1]);
        })
        .depends(Depends::Moved)
        .any_dtype();

}  // namespace adjoint
