// Masks: masked_fill, masked_select, masked_scatter, nonzero and their like.
#include "dispatch/overlap.h"
#include "dispatch/scalar_range.h"
#include "kernels/elementwise/elementwise.h"
#include "ops/index/offsets.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

void require_mask(T mask, const char* name) {
  if (mask.dtype() != DType::Bool) {
    runtime_error(name, " only supports boolean masks, but got mask with dtype ", mask.dtype());
  }
}

Operand operand_of(T t, Span shape) {
  Operand o{t->data, t.dtype(), Dims(shape.n, 0)};
  int lead = shape.n - t.ndim();
  for (int i = 0; i < t.ndim(); ++i) {
    if (t.size(i) != 1) o.strides[lead + i] = t.stride(i) * static_cast<int64_t>(t.itemsize());
  }
  return o;
}

Value masked_fill_forward(Call& c) {
  Tensor t = c.tensor(0), mask = c.tensor(1), value = c.tensor(2);
  require_mask(mask, "masked_fill_");
  if (value && value.ndim() != 0) {
    runtime_error("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                  value.ndim(), " dimension(s).");
  }
  DType given = value ? value.dtype() : scalar_dtype(c[2]);
  if (is_complex(given) && !is_complex(t.dtype())) {
    runtime_error("value cannot be converted to type ", t.dtype(), " without overflow: it is ",
                  given);
  }
  if (!value) require_fits(c[2], t.dtype());
  value = value ? cast(value, t.dtype()) : scalar_tensor(c[2], t.dtype());
  Dims shape = broadcast_shapes(t.shape(), mask.shape());
  bool fits = c.out && Span(shape) == c.out.shape() && c.out.dtype() == t.dtype();
  Tensor out =
      fits ? c.out : empty(shape, t.dtype());  // row-major whatever the input, as PyTorch's
  mask = apart(mask, out);
  value = apart(value, out);
  t = in_step(t, out);
  if (out.numel() == 0) return out;
  Operand operand[4] = {operand_of(out, shape), operand_of(t, shape), operand_of(mask, shape),
                        operand_of(value, shape)};
  DType wanted[4] = {t.dtype(), t.dtype(), DType::Bool, t.dtype()};
  Loop loop = mask_loop(t.dtype());
  WithoutGil release(out.numel() >= kReleaseGil);
  run_elementwise(loop, wanted, shape, operand, 4);
  return out;
}

Tensor clear_mask(T g, C c) { return op<"masked_fill">(g, c.in(1), 0); }

// `t` seen at the shape that it and the mask broadcast to.
Tensor seen_with(T t, T mask) {
  Dims shape = broadcast_shapes(t.shape(), mask.shape());
  Dims strides(shape.size(), 0);
  int lead = shape.size() - t.ndim();
  for (int i = 0; i < t.ndim(); ++i) {
    if (t.size(i) == shape[lead + i]) strides[lead + i] = t.stride(i);
  }
  return on_storage(t->storage, shape, strides, t.offset(), t.dtype());
}

Tensors columns_of(T rows) {
  Tensors out;
  for (int64_t d = 0; d < rows.size(1); ++d) {
    out.push_back(
        on_storage(rows->storage, Dims{rows.size(0)}, Dims{rows.size(1)}, d, DType::Int64));
  }
  return out;
}

Value nonzero_forward(Call& c) {
  Tensor t = c.tensor(0);
  if (!c.flag(1)) return nonzero_of(t);
  if (t.ndim() == 0) t = on_storage(t->storage, Dims{1}, Dims{1}, t.offset(), t.dtype());
  return columns_of(nonzero_of(t));
}

}  // namespace

// Before the overload with a number, which would take a 0-d tensor for one.
static const Op& masked_fill_tensor_ =
    def("masked_fill.tensor(input, mask, value)",
        "The same with a 0-d tensor as value, which takes part in differentiation.")
        .forward(masked_fill_forward)
        .grad(0, input(1), clear_mask)
        .grad(2, input(1),
              [](T g, C c) -> Tensor { return op<"sum">(op<"masked_select">(g, c.in(1))); })
        .linear()
        .inplace()
        .node("MaskedFillBackward1")
        .batch([](Call& c, const int* axes) -> Value {
          if (axes[2] < 0) return batch::lined_up(c, axes);
          int ndim = std::max(batch::sample_ndim(c, axes, 0), batch::sample_ndim(c, axes, 1));
          auto up = [&](int i) {
            return axes[i] >= 0 ? batch::line_up(c.tensor(i), ndim) : c.tensor(i);
          };
          Tensor value = op<"_to_copy">(up(2), c.tensor(0).dtype());
          return op<"where">(up(1), value, up(0));
        })
        .depends(Depends::Pointwise)
        .any_dtype();

static const Op& masked_fill_ =
    def("masked_fill(input, mask, value: Scalar)",
        "A copy of `input` that is `value` where `mask`.")
        .forward(masked_fill_forward)
        .grad(0, input(1), clear_mask)
        .jvp([](C c, const Tensor* t) -> Value { return clear_mask(t[0], c); })
        .inplace()
        .batch(batch::lined_up)
        .depends(Depends::Pointwise)
        .any_dtype();

static const Op& masked_select_ =
    def("masked_select(input, mask)", "The elements of `input` where `mask`, as a vector.")
        .forward([](Call& c) -> Value {
          if (c.tensor(1).dtype() != DType::Bool) {
            runtime_error("masked_select: expected BoolTensor for mask, got ", c.tensor(1).dtype());
          }
          Tensor t = seen_with(c.tensor(0), c.tensor(1));
          Places places = plan_mask(t, c.tensor(1));
          return read_places(t, places, Dims{places.numel()});
        })
        .grad(0, input(1),
              [](T g, C c) -> Tensor {
                Dims shape = broadcast_shapes(c.shape(0), c.in(1).tensor().shape());
                return op<"masked_scatter">(zeros(shape, g.dtype()), c.in(1), g);
              })
        .linear()
        .depends(Depends::Moved)
        .by_values()
        .any_dtype()
        .out_apart();

static const Op& masked_scatter_ =
    def("masked_scatter(input, mask, source)",
        "A copy of `input` whose elements where `mask` are those of `source`, in order.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0), mask = c.tensor(1), source = c.tensor(2);
          require_mask(mask, "masked_scatter_");
          if (source.dtype() != t.dtype()) {
            runtime_error("masked_scatter_: expected self and source to have same dtypes but got ",
                          t.dtype(), " and ", source.dtype());
          }
          Tensor to;
          if (c.out && c.out.is(t)) {
            to = t;
          } else {
            Tensor seen = seen_with(t, mask);
            to = empty(seen.shape(), t.dtype());
            copy_into(to, seen);
          }
          Places places = plan_mask(to, mask);
          if (places.numel() > source.numel()) {
            runtime_error("masked_scatter: Number of elements of source < number of ones in mask: ",
                          source.numel(), " < ", places.numel());
          }
          source = contiguous(apart(source, to));
          if (places.numel()) write_places(to, source, places, Reduce::Replace);
          return to;
        })
        .grad(0, input(1), clear_mask)
        .grad(2, input(1),
              [](T g, C c) -> Tensor {
                Tensor taken = op<"masked_select">(g, c.in(1));
                Span shape = c.shape(2);
                int64_t n = 1;
                for (int64_t s : shape) n *= s;
                Tensor flat = zeros(Dims{n}, g.dtype());
                Value all = op<"slice_scatter">(flat, taken, 0, 0, taken.numel());
                return op<"reshape">(all.tensor(), shape);
              })
        .linear()
        .inplace()
        .depends(Depends::Moved)
        .any_dtype();

static const Op& nonzero_ =
    def("nonzero(input, *, as_tuple: bool = False)",
        "The coordinates of the elements that are not zero: one row each, or one vector per axis.")
        .forward(nonzero_forward)
        .batch(batch::refuse_by_values)
        .by_values()
        .any_dtype();

static const Op& argwhere_ =
    def("argwhere(input)", "The coordinates of the elements that are not zero, one row each.")
        .forward([](Call& c) -> Value { return nonzero_of(c.tensor(0)); })
        .no_out()
        .batch(batch::refuse_by_values)
        .by_values()
        .any_dtype();

static const Op& where_ =
    def("where.condition(condition)",
        "The coordinates of the elements that are not zero, one vector per axis.")
        .forward([](Call& c) -> Value { return op<"nonzero">(c.tensor(0), true); })
        .function_only()
        .no_out()
        .batch(batch::refuse_by_values)
        .by_values()
        .cheap()
        .any_dtype();

}  // namespace adjoint
