// Tensors made from a size and a value. Ranges and grids are in ranges.cpp, random ones in
// ops/random/random.cpp, tensors from data in bindings/tensor/creation.cpp.
#include <cmath>

#include "kernels/convert.h"
#include "ops/creation/options.h"
#include "ops/sparse/rules.h"
#include "parallel/pool.h"
#include "python/gil.h"
#include "transforms/batch_rules.h"

namespace adjoint {

namespace {

bool integer_fits(int64_t i, DType d) {
  switch (d) {
    case DType::UInt8:
      return i >= -255 && i <= 255;
    case DType::UInt16:
      return i >= -UINT16_MAX && i <= UINT16_MAX;
    case DType::UInt32:
      return i >= -int64_t{UINT32_MAX} && i <= int64_t{UINT32_MAX};
    case DType::Int8:
      return i >= -128 && i <= 127;
    case DType::Int16:
      return i >= -32768 && i <= 32767;
    case DType::Int32:
      return i >= INT32_MIN && i <= INT32_MAX;
    default:
      return true;
  }
}

bool real_fits(double x, DType d) {
  if (d == DType::Bool || d == DType::Float64 || is_complex(d) || is_half(d)) return true;
  if (d == DType::Float32) return !(std::abs(x) > 3.4028235677973366e38) || std::isinf(x);
  if (is_wide_unsigned(d)) {
    double beyond = std::ldexp(1.0, static_cast<int>(8 * item_size(d)));
    return x >= 0 && x <= beyond - 1 && x < beyond;
  }
  if (!(x > -9.3e18 && x < 9223372036854775808.0)) return false;  // NaN and infinity too
  return d == DType::Int64 ? x >= -9223372036854775808.0 : integer_fits(static_cast<int64_t>(x), d);
}

[[noreturn]] void does_not_fit(const Value& v, DType d) {
  std::string value = v.kind() == Value::Int ? std::to_string(v.integer())
                      : v.kind() == Value::Complex
                          ? text(v.complex().real(), "+", v.complex().imag(), "j")
                          : text(v.real());
  runtime_error("value cannot be converted to type ", d, " without overflow: ", value);
}

}  // namespace

void store_checked(const Value& v, DType d, void* out) {
  if (v.kind() == Value::Int || v.kind() == Value::Bool) {
    if (!integer_fits(v.integer(), d)) does_not_fit(v, d);
    return store_scalar(d, out, v.integer());
  }
  if (v.kind() == Value::Complex && v.complex().imag() != 0 && !is_complex(d)) does_not_fit(v, d);
  if (!real_fits(v.real(), d)) does_not_fit(v, d);
  store_scalar(d, out, v.complex());
}

void fill_dense(const Tensor& t, const Value& v) {
  alignas(16) char element[16];
  store_checked(v, t.dtype(), element);
  char* data = t->data;
  DType d = t.dtype();
  int64_t n = t.numel();
  auto size = static_cast<int64_t>(item_size(d));
  WithoutGil release(n >= kReleaseGil);
  parallel::parallel_ranges(n, 1 << 17, [&](int64_t begin, int64_t end) {
    fill_run(data + begin * size, d, element, end - begin);
  });
}

DType inferred_dtype(const Value& v) {
  switch (v.kind()) {
    case Value::Bool:
      return DType::Bool;
    case Value::Int:
      return DType::Int64;
    case Value::Complex:
      return complex_dtype(default_dtype());
    default:
      return default_dtype();
  }
}

namespace {

Tensor filled(Tensor t, const Value& v) {
  fill_dense(t, v);
  return t;
}

template <int Number>
Value constant(Call& c) {
  Options options(c, 1);
  DType d = options.dtype(default_dtype());
  return options.finish(Number ? filled(empty(c.ints(0), d), Value(Number)) : zeros(c.ints(0), d));
}

template <int Number>
Value constant_like(Call& c) {
  Options options(c, 1);
  Tensor like = c.tensor(0);
  return options.finish(filled(options.like(like), Value(Number)));
}

template <int Number>
Value new_constant(Call& c) {
  Options options(c, 2);
  return options.finish(
      filled(empty(c.ints(1), options.dtype(c.tensor(0).dtype())), Value(Number)));
}

Dims checked_strides(const Dims& size, const Dims& strides) {
  if (size.size() != strides.size()) {
    runtime_error("dimensionality of sizes (", size.size(),
                  ") must match dimensionality of strides (", strides.size(), ")");
  }
  int64_t n = checked_numel(size, 1), extent = 16;
  for (int i = 0; i < size.size(); ++i) {
    int64_t reach;
    bool bad = strides[i] < 0;
    if (n) {
      bad |= __builtin_mul_overflow(size[i] - 1, strides[i], &reach) ||
             __builtin_add_overflow(extent, reach, &extent) || extent > (int64_t{1} << 58);
    }
    if (bad) {
      runtime_error("Storage size calculation overflowed with sizes=", size,
                    " and strides=", strides);
    }
  }
  return strides;
}

}  // namespace

static const Op& zeros_ =
    def("zeros(size|shape: int[*], " ADJOINT_OPTIONS, "A tensor of the given size filled with 0.")
        .forward(constant<0>)
        .function_only()
        .fills();
static const Op& ones_ =
    def("ones(size|shape: int[*], " ADJOINT_OPTIONS, "A tensor of the given size filled with 1.")
        .forward(constant<1>)
        .function_only()
        .fills();

static const Op& empty_ =
    def("empty(size|shape: int[*], *, dtype: dtype? = None, layout: any? = None, device: any? = "
        "None, "
        "requires_grad: bool = False, pin_memory: bool? = False, memory_format: any? = None)",
        "A tensor of the given size whose values are whatever the memory held.")
        .forward([](Call& c) -> Value {
          Options options(c, 1);
          DType dtype = options.dtype(default_dtype());
          MemoryFormat format = memory_format_of(c[6], MemoryFormat::Contiguous);
          if (format == MemoryFormat::Contiguous) return options.finish(empty(c.ints(0), dtype));
          checked_numel(c.ints(0), item_size(dtype));
          return options.finish(
              empty_strided(c.ints(0), strides_in_format(c.ints(0), format), dtype));
        })
        .function_only()
        .uninitialised();

static const Op& empty_strided_ =
    def("empty_strided(size: int[], stride: int[], " ADJOINT_OPTIONS,
        "A tensor with the given size and strides whose values are whatever the memory held.")
        .forward([](Call& c) -> Value {
          Options options(c, 2);
          return options.finish(empty_strided(c.ints(0), checked_strides(c.ints(0), c.ints(1)),
                                              options.dtype(default_dtype())));
        })
        .function_only()
        .no_out()
        .uninitialised();

static const Op& full_ =
    def("full(size|shape: int[], fill_value: Scalar, " ADJOINT_OPTIONS,
        "A tensor of the given size filled with one value, whose kind decides the dtype.")
        .forward([](Call& c) -> Value {
          Options options(c, 2);
          return options.finish(
              filled(empty(c.ints(0), options.dtype(inferred_dtype(c[1]))), c[1]));
        })
        .function_only()
        .fills();

static const Op& zeros_like_ =
    def("zeros_like(input, " ADJOINT_LIKE_OPTIONS, "A tensor like `input` filled with 0.")
        .forward(constant_like<0>)
        .function_only()
        .no_out()
        .batch(batch::as_is)
        .fills()
        .sparse(sparse::zeros_like);
static const Op& plain_ones_like_ =
    def("_ones_like(input)", "Ones of the shape and dtype of `input`.")
        .forward([](Call& c) -> Value {
          Tensor t = c.tensor(0);
          GradMode off(false);
          return op<"add">(zeros(t.shape(), t.dtype()), 1);
        })
        .internal()
        .batch(batch::as_is)
        .fills();

static const Op& ones_like_ =
    def("ones_like(input, " ADJOINT_LIKE_OPTIONS, "A tensor like `input` filled with 1.")
        .forward(constant_like<1>)
        .function_only()
        .no_out()
        .batch(batch::as_is)
        .fills();

static const Op& empty_like_ =
    def("empty_like(input, " ADJOINT_LIKE_OPTIONS,
        "A tensor like `input` whose values are whatever the memory held.")
        .forward([](Call& c) -> Value {
          Options options(c, 1);
          Tensor like = c.tensor(0);
          return options.finish(options.like(like));
        })
        .function_only()
        .no_out()
        .batch(batch::as_is)
        .uninitialised()
        .sparse(sparse::zeros_like);

static const Op& full_like_ = def("full_like(input, fill_value: Scalar, " ADJOINT_LIKE_OPTIONS,
                                  "A tensor like `input` filled with one value.")
                                  .forward([](Call& c) -> Value {
                                    Options options(c, 2);
                                    Tensor like = c.tensor(0);
                                    return options.finish(filled(options.like(like), c[1]));
                                  })
                                  .function_only()
                                  .no_out()
                                  .batch(batch::as_is)
                                  .fills();

namespace {

Value new_rule(Call& c, const int* axes) {
  Dims size = c.ints(1);
  size.insert(0, batch::size(c, axes));
  c.args[1] = size;
  return apply(c.op, c.args);
}

}  // namespace

static const Op& new_zeros_ =
    def("new_zeros(input, size: int[*], " ADJOINT_OPTIONS,
        "A tensor of the given size filled with 0, of this tensor's dtype unless told otherwise.")
        .forward(new_constant<0>)
        .method_only()
        .no_out()
        .batch(new_rule)
        .fills();
static const Op& new_ones_ =
    def("new_ones(input, size: int[*], " ADJOINT_OPTIONS,
        "A tensor of the given size filled with 1, of this tensor's dtype unless told otherwise.")
        .forward(new_constant<1>)
        .method_only()
        .no_out()
        .batch(new_rule)
        .fills();

static const Op& new_empty_ =
    def("new_empty(input, size: int[*], " ADJOINT_OPTIONS,
        "A tensor of the given size with arbitrary values, of this tensor's dtype unless told "
        "otherwise.")
        .forward([](Call& c) -> Value {
          Options options(c, 2);
          return options.finish(empty(c.ints(1), options.dtype(c.tensor(0).dtype())));
        })
        .method_only()
        .no_out()
        .batch(new_rule)
        .uninitialised();

static const Op& new_full_ =
    def("new_full(input, size: int[], fill_value: Scalar, " ADJOINT_OPTIONS,
        "A tensor of the given size filled with one value, of this tensor's dtype unless told "
        "otherwise.")
        .forward([](Call& c) -> Value {
          Options options(c, 3);
          return options.finish(filled(empty(c.ints(1), options.dtype(c.tensor(0).dtype())), c[2]));
        })
        .method_only()
        .no_out()
        .batch(new_rule)
        .fills();

static const Op& new_empty_strided_ =
    def("new_empty_strided(input, size: int[], stride: int[], " ADJOINT_OPTIONS,
        "A tensor with the given size and strides and arbitrary values, of this tensor's dtype "
        "unless told otherwise.")
        .forward([](Call& c) -> Value {
          Options options(c, 3);
          return options.finish(empty_strided(c.ints(1), checked_strides(c.ints(1), c.ints(2)),
                                              options.dtype(c.tensor(0).dtype())));
        })
        .method_only()
        .no_out()
        // Memory for one sample after another.
        .batch([](Call& c, const int* axes) -> Value {
          Dims size = c.ints(1), stride = c.ints(2);
          if (size.size() == stride.size()) {
            bool none = std::find(size.begin(), size.end(), 0) != size.end();
            stride.insert(0, none ? 0 : batch::reach(size, stride));
          }
          size.insert(0, batch::size(c, axes));
          c.args[1] = size;
          c.args[2] = stride;
          return apply(c.op, c.args);
        })
        .uninitialised();

static const Op& scalar_tensor_ =
    def("scalar_tensor(s: Scalar, " ADJOINT_OPTIONS,
        "A 0-d tensor holding a number, of the default float dtype unless told otherwise.")
        .forward([](Call& c) -> Value {
          Options options(c, 1);
          DType otherwise = c[0].kind() == Value::Complex ? inferred_dtype(c[0]) : default_dtype();
          return options.finish(filled(empty({}, options.dtype(otherwise)), c[0]));
        })
        .function_only()
        .no_out()
        .to_any_dtype();

}  // namespace adjoint
