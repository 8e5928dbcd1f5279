// Setting every element to one value.
#include "dispatch/op.h"
#include "dispatch/scalar_range.h"
#include "kernels/convert.h"
#include "ops/elementwise/fused.h"
#include "ops/sparse/rules.h"
#include "parallel/pool.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {
namespace {

using T = const Tensor&;
using C = Context&;

constexpr int64_t kGrain = 65536;

void fill_all(const Tensor& out, const Tensor& value) {
  if (!out.contiguous()) {
    Dims zero_strides(out.ndim(), 0);
    copy_into(out,
              on_storage(value->storage, out.shape(), zero_strides, value.offset(), value.dtype()));
    return;
  }
  int64_t n = out.numel(), item = static_cast<int64_t>(out.itemsize());
  alignas(16) char element[16];
  std::memcpy(element, value->data, item);
  char* data = out->data;
  DType dtype = out.dtype();
  WithoutGil release(n >= kReleaseGil);
  if (n < 2 * kGrain) return fill_run(data, dtype, element, n);
  parallel::parallel_ranges(n, kGrain, [&](int64_t begin, int64_t end) {
    fill_run(data + begin * item, dtype, element, end - begin);
  });
}

Tensor element_of(const Value& value, DType dtype) {
  if (value.is_tensor()) {
    if (value.object()->ndim != 0) {
      runtime_error("fill_ only supports 0-dimension value tensor but got tensor with ",
                    static_cast<int>(value.object()->ndim), " dimensions.");
    }
    return cast(value.tensor(), dtype);
  }
  require_fits(value, dtype);
  return scalar_tensor(value, dtype);
}

}  // namespace

static const Op& fill_ =
    def("fill(input, value: Operand)", "Every element set to `value`, a number or a 0-d tensor.")
        .forward([](Call& c) -> Value {
          Tensor like = c.tensor(0), out = c.out ? c.out : empty_like(like, like.dtype());
          fill_all(out, element_of(c[1], out.dtype()));
          return out;
        })
        .grad(0, nothing, [](T g, C) { return zeros_of(g); })
        .grad(1, nothing, [](T g, C) { return g; })
        .jvp([](C c, const Tensor* t) -> Value {
          if (!t[1]) return zeros_of(t[0]);
          Span shape = c.out_shape();
          return op<"expand">(t[1], shape);
        })
        .inplace()
        .no_out()
        .batch([](Call& c, const int* axes) -> Value {
          Tensor t = batch::whole(c, axes, 0);
          if (axes[1] < 0) return op<"fill">(t, c[1]);
          Tensor value = op<"_to_copy">(batch::line_up(c.tensor(1), t.ndim() - 1), t.dtype());
          return op<"clone">(op<"expand">(value, t.shape()));
        })
        .writes_all()
        .depends(Depends::Moved)
        .any_dtype();

static const Op& zero_ = def("zero(input)", "Every element set to 0.")
                             .forward([](Call& c) -> Value {
                               Tensor like = c.tensor(0),
                                      out = c.out ? c.out : empty_like(like, like.dtype());
                               fill_all(out, scalar_tensor(0, out.dtype()));
                               return out;
                             })
                             .grad(0, nothing, [](T g, C) { return zeros_of(g); })
                             .linear()
                             .inplace()
                             .internal()
                             .writes_all()
                             .batch(batch::as_is)
                             .sparse(sparse::zero)
                             .any_dtype();

}  // namespace adjoint
