// Pooling by windows that slide: a row of results at a time, tap by tap, so that lanes run along the
// row. See kernels/windows/pool.h.
#include "kernels/independent_loop.h"
#include "kernels/windows/pool_rows.h"
#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

// An index as wide as the element it stands beside.
template <class T>
struct IndexOf {
  using type = int64_t;
};
template <>
struct IndexOf<float> {
  using type = int32_t;
};

template <class T>
constexpr T lowest() {
  if constexpr (std::is_same_v<T, int64_t>)
    return INT64_MIN;
  else
    return -__builtin_inf();
}

template <class T>
ADJOINT_INLINE bool is_nan(T v) {
  if constexpr (std::is_same_v<T, int64_t>)
    return false;
  else
    return v != v;
}

// f with the step as a constant where it is a common one.
template <class F>
ADJOINT_INLINE void with_step(int64_t step, F f) {
  if (step == 1) return f(std::integral_constant<int64_t, 1>{});
  if (step == 2) return f(std::integral_constant<int64_t, 2>{});
  f(step);
}

// For each row of results: f(number of the row, z and y of its windows).
template <class F>
ADJOINT_INLINE void each_row(const Pool& p, F f) {
  for (int64_t z = 0; z < p.out[0]; ++z)
    for (int64_t y = 0; y < p.out[1]; ++y) f(z, y);
}
// For each tap of windows in a row: f(where it lies for window 0, the windows it is inside of).
template <class F>
ADJOINT_INLINE void each_tap(const PoolJob& j, int64_t z, int64_t y, F f) {
  const Pool& p = *j.pool;
  const SlidingAxis &az = j.axes[0], &ay = j.axes[1], &ax = j.axes[2];
  for (int32_t a = az.first_tap[z]; a < az.end_tap[z]; ++a)
    for (int32_t b = ay.first_tap[y]; b < ay.end_tap[y]; ++b) {
      const int64_t row = (z * p.stride[0] - p.padding[0] + a * p.dilation[0]) * p.in[1] +
                          y * p.stride[1] - p.padding[1] + b * p.dilation[1];
      for (int64_t t = 0; t < p.kernel[2]; ++t)
        f(row * p.in[2] - p.padding[2] + t * p.dilation[2], ax.begin[t], ax.end[t]);
    }
}

template <class T>
void max_pool_planes(char* const* arguments, int64_t) {
  using I = typename IndexOf<T>::type;
  const PoolJob& j = *reinterpret_cast<const PoolJob*>(arguments[0]);
  const Pool& p = *j.pool;
  const int64_t size = p.in[0] * p.in[1] * p.in[2], n = p.out[2];
  I* at = reinterpret_cast<I*>(j.row);
  T* best = reinterpret_cast<T*>(j.y) + j.first * p.out[0] * p.out[1] * n;
  int64_t* index = j.index + j.first * p.out[0] * p.out[1] * n;
  for (int64_t plane = j.first; plane < j.end; ++plane) {
    const T* x = reinterpret_cast<const T*>(j.x) + plane * size;
    each_row(p, [&](int64_t z, int64_t y) {
      const int64_t a = j.axes[0].first[z], b = j.axes[1].first[y];
      const int64_t start = (a * p.in[1] + b) * p.in[2];
      for (int64_t q = 0; q < n; ++q) {
        const int64_t c = j.axes[2].first[q];
        best[q] = lowest<T>();
        at[q] = static_cast<I>((a | b | c) < 0 ? -1 : start + c);
      }
      each_tap(j, z, y, [&](int64_t from, int64_t begin, int64_t end) {
        with_step(p.stride[2], [&](auto step) {
          ADJOINT_INDEPENDENT
          for (int64_t q = begin; q < end; ++q) {
            const T v = x[from + q * step];
            const bool take = (v > best[q]) | is_nan(v);
            best[q] = take ? v : best[q];
            at[q] = take ? static_cast<I>(from) + static_cast<I>(q) * static_cast<I>(step) : at[q];
          }
        });
      });
      for (int64_t q = 0; q < n; ++q) index[q] = at[q];
      best += n;
      index += n;
    });
  }
}

// What sums of the windows in a row are divided by.
template <class F>
ADJOINT_INLINE void each_divisor(const PoolJob& j, int64_t z, int64_t y, F f) {
  const int64_t n = j.pool->out[2];
  const int64_t rows = j.axes[0].elements[z] * j.axes[1].elements[y];
  for (int64_t q = 0; q < n; ++q) f(q, j.divisor ? j.divisor : rows * j.axes[2].elements[q]);
}

template <class T>
void mean_pool_planes(char* const* arguments, int64_t) {
  const PoolJob& j = *reinterpret_cast<const PoolJob*>(arguments[0]);
  const Pool& p = *j.pool;
  const int64_t size = p.in[0] * p.in[1] * p.in[2], n = p.out[2];
  T* out = reinterpret_cast<T*>(j.y) + j.first * p.out[0] * p.out[1] * n;
  for (int64_t plane = j.first; plane < j.end; ++plane) {
    const T* x = reinterpret_cast<const T*>(j.x) + plane * size;
    each_row(p, [&](int64_t z, int64_t y) {
      for (int64_t q = 0; q < n; ++q) out[q] = 0;
      each_tap(j, z, y, [&](int64_t from, int64_t begin, int64_t end) {
        with_step(p.stride[2], [&](auto step) {
          ADJOINT_INDEPENDENT
          for (int64_t q = begin; q < end; ++q) out[q] += x[from + q * step];
        });
      });
      each_divisor(j, z, y, [&](int64_t q, int64_t by) { out[q] /= static_cast<T>(by); });
      out += n;
    });
  }
}

template <class T>
void mean_pool_back_planes(char* const* arguments, int64_t) {
  const PoolJob& j = *reinterpret_cast<const PoolJob*>(arguments[0]);
  const Pool& p = *j.pool;
  const int64_t size = p.in[0] * p.in[1] * p.in[2], n = p.out[2];
  T* part = reinterpret_cast<T*>(j.row);
  const T* g = reinterpret_cast<const T*>(j.x) + j.first * p.out[0] * p.out[1] * n;
  for (int64_t plane = j.first; plane < j.end; ++plane) {
    T* dx = reinterpret_cast<T*>(j.y) + plane * size;
    for (int64_t i = 0; i < size; ++i) dx[i] = 0;
    each_row(p, [&](int64_t z, int64_t y) {
      each_divisor(j, z, y, [&](int64_t q, int64_t by) { part[q] = g[q] / static_cast<T>(by); });
      each_tap(j, z, y, [&](int64_t to, int64_t begin, int64_t end) {
        with_step(p.stride[2], [&](auto step) {
          ADJOINT_INDEPENDENT
          for (int64_t q = begin; q < end; ++q) dx[to + q * step] += part[q];
        });
      });
      g += n;
    });
  }
}

#define POOL_KERNEL(name) \
  ROW_KERNEL(name, 1)     \
  const LoopRegistrar name##_i64{kIsa, #name, 1, Result::Same, DType::Int64, name<int64_t>};

POOL_KERNEL(max_pool_planes)
POOL_KERNEL(mean_pool_planes)
POOL_KERNEL(mean_pool_back_planes)

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
