// Loops over one contiguous row: softmax, its logarithm, their gradients, log-sum-exp and layer
// normalisation. They are found by name like elementwise kernels, but an element of the result
// depends on the whole row, and some of their operands are a few numbers rather than rows.
//
// Sums are taken in blocks whose results are added in double precision, so that long rows lose no
// digits. NaN anywhere in a row makes its sum NaN, and thereby the whole result.
// Read next: ops/nn/rows.h for who calls them.
#include "kernels/independent_loop.h"
#include "kernels/isa/math/exp.h"
#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

constexpr int64_t kBlock = 4096;

// The row's largest element; NaN is passed over, -inf for a row of nothing else.
template <class T>
ADJOINT_INLINE T largest(const T* x, int64_t n) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  V top[4];
  for (V& t : top) t = splat<V>(-kInf<V>);
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      V v = load<T, V>(x + i + k * W);
      top[k] = v > top[k] ? v : top[k];
    }
  }
  for (; i < n; i += W) {
    V v = i + W <= n ? load<T, V>(x + i) : load_part<T, V>(x + i, n - i);
    if (i + W > n) v = first_lanes<V>(n - i) ? v : top[0];
    top[0] = v > top[0] ? v : top[0];
  }
  for (int k = 1; k < 4; ++k) top[0] = top[k] > top[0] ? top[k] : top[0];
  T lane[W], best = -kInf<V>;
  memcpy(lane, &top[0], sizeof lane);
  for (T v : lane) best = v > best ? v : best;
  return best;
}

// Adds up term(i, read), a vector made of the elements from i on; `read(p)` loads them.
template <class T, class F>
ADJOINT_INLINE double sum_over(int64_t n, F term) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  double total = 0;
  for (int64_t b = 0; b < n; b += kBlock) {
    const int64_t end = b + kBlock < n ? b + kBlock : n;
    V one = {}, two = {};
    int64_t i = b;
    auto whole = [](const T* p) { return load<T, V>(p); };
    for (; i + 2 * W <= end; i += 2 * W) {
      one += term(i, whole);
      two += term(i + W, whole);
    }
    if (i + W <= end) {
      one += term(i, whole);
      i += W;
    }
    if (i < end) {
      const int64_t count = end - i;
      V last = term(i, [count](const T* p) { return load_part<T, V>(p, count); });
      two += first_lanes<V>(count) ? last : V{};
    }
    total += sum_of_lanes(one + two);
  }
  return total;
}

// out[i] = value(i, read) for the whole row.
template <class T, class F>
ADJOINT_INLINE void write_row(T* out, int64_t n, F value) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  int64_t i = 0;
  auto whole = [](const T* p) { return load<T, V>(p); };
  for (; i + W <= n; i += W) store<T, V>(out + i, value(i, whole));
  if (i < n) {
    const int64_t count = n - i;
    V last = value(i, [count](const T* p) { return load_part<T, V>(p, count); });
    store_part<T, V>(out + i, last, count);
  }
}

template <class T>
ADJOINT_INLINE double sum_of_exp(const T* x, int64_t n, T top) {
  return sum_over<T>(n, [=](int64_t i, auto read) { return exp(read(x + i) - top); });
}

// y = softmax(x). The exponentials are kept in y between the passes.
template <class T>
void softmax_row(char* const* p, int64_t n) {
  using V = VecOf<T>;
  T* y = reinterpret_cast<T*>(p[0]);
  const T* x = reinterpret_cast<const T*>(p[1]);
  const T top = largest(x, n);
  constexpr int W = kLanes<V>;
  double total = 0;
  for (int64_t b = 0; b < n; b += kBlock) {
    const int64_t end = b + kBlock < n ? b + kBlock : n;
    V sum = {};
    int64_t i = b;
    for (; i + W <= end; i += W) {
      V e = exp(load<T, V>(x + i) - top);
      store<T, V>(y + i, e);
      sum += e;
    }
    if (i < end) {
      V e = exp(load_part<T, V>(x + i, end - i) - top);
      store_part<T, V>(y + i, e, end - i);
      sum += first_lanes<V>(end - i) ? e : V{};
    }
    total += sum_of_lanes(sum);
  }
  const T scale = static_cast<T>(1 / total);
  write_row<T>(y, n, [=](int64_t i, auto read) { return read(y + i) * scale; });
}

// y = log(softmax(x)) = (x - max) - log(sum(exp(x - max))): no digits are lost to a large max.
template <class T>
void log_softmax_row(char* const* p, int64_t n) {
  T* y = reinterpret_cast<T*>(p[0]);
  const T* x = reinterpret_cast<const T*>(p[1]);
  const T top = largest(x, n), rest = static_cast<T>(__builtin_log(sum_of_exp(x, n, top)));
  write_row<T>(y, n, [=](int64_t i, auto read) { return (read(x + i) - top) - rest; });
}

// p[0] receives two numbers, whose sum is log(sum(exp(x))): the maximum and the rest.
template <class T>
void logsumexp_row(char* const* p, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  const T* x = reinterpret_cast<const T*>(p[1]);
  out[0] = largest(x, n);
  out[1] = static_cast<T>(__builtin_log(sum_of_exp(x, n, out[0])));
}

// p[0] = scale * softmax(x), given p[2] = {maximum, rest, scale}.
template <class T>
void scaled_softmax_row(char* const* p, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  const T* x = reinterpret_cast<const T*>(p[1]);
  const T* given = reinterpret_cast<const T*>(p[2]);
  const T top = given[0], rest = given[1], scale = given[2];
  write_row<T>(out, n,
               [=](int64_t i, auto read) { return exp((read(x + i) - top) - rest) * scale; });
}

// p[0] = y * (g - sum(g * y))
template <class T>
void softmax_row_grad(char* const* p, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  const T *g = reinterpret_cast<const T*>(p[1]), *y = reinterpret_cast<const T*>(p[2]);
  const T dot = static_cast<T>(
      sum_over<T>(n, [=](int64_t i, auto read) { return read(g + i) * read(y + i); }));
  write_row<T>(out, n, [=](int64_t i, auto read) { return read(y + i) * (read(g + i) - dot); });
}

// p[0] = g - exp(y) * sum(g)
template <class T>
void log_softmax_row_grad(char* const* p, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  const T *g = reinterpret_cast<const T*>(p[1]), *y = reinterpret_cast<const T*>(p[2]);
  const T total = static_cast<T>(sum_over<T>(n, [=](int64_t i, auto read) { return read(g + i); }));
  write_row<T>(out, n,
               [=](int64_t i, auto read) { return read(g + i) - exp(read(y + i)) * total; });
}

// p: y, x, weight or null, bias or null, {mean, 1/deviation} to be filled in, eps (a double).
template <class T>
void layer_norm_row(char* const* p, int64_t n) {
  T* y = reinterpret_cast<T*>(p[0]);
  const T *x = reinterpret_cast<const T*>(p[1]), *w = reinterpret_cast<const T*>(p[2]),
          *b = reinterpret_cast<const T*>(p[3]);
  T* stats = reinterpret_cast<T*>(p[4]);
  const double eps = *reinterpret_cast<const double*>(p[5]);
  const T mean =
      static_cast<T>(sum_over<T>(n, [=](int64_t i, auto read) { return read(x + i); }) / n);
  const double spread = sum_over<T>(n, [=](int64_t i, auto read) {
    auto centred = read(x + i) - mean;
    return centred * centred;
  });
  const T rstd = static_cast<T>(1 / __builtin_sqrt(spread / n + eps));
  stats[0] = mean;
  stats[1] = rstd;
  auto normal = [=](int64_t i, auto read) { return (read(x + i) - mean) * rstd; };
  if (w && b) {
    write_row<T>(y, n,
                 [=](int64_t i, auto read) { return normal(i, read) * read(w + i) + read(b + i); });
  } else if (w) {
    write_row<T>(y, n, [=](int64_t i, auto read) { return normal(i, read) * read(w + i); });
  } else if (b) {
    write_row<T>(y, n, [=](int64_t i, auto read) { return normal(i, read) + read(b + i); });
  } else {
    write_row<T>(y, n, normal);
  }
}

// With v the normalised row and h = g * weight, p[0] = (h - mean(h) - v * mean(h * v)) / deviation.
// p: the result, g, x, weight or null, {mean, 1/deviation}.
template <class T, bool Weighted>
ADJOINT_INLINE void layer_norm_grad(char* const* p, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  const T *g = reinterpret_cast<const T*>(p[1]), *x = reinterpret_cast<const T*>(p[2]),
          *w = reinterpret_cast<const T*>(p[3]), *stats = reinterpret_cast<const T*>(p[4]);
  const T mean = stats[0], rstd = stats[1];
  auto h = [=](int64_t i, auto read) {
    if constexpr (Weighted)
      return read(g + i) * read(w + i);
    else
      return read(g + i);
  };
  auto v = [=](int64_t i, auto read) { return (read(x + i) - mean) * rstd; };
  const T first = static_cast<T>(sum_over<T>(n, h) / n);
  const T second = static_cast<T>(
      sum_over<T>(n, [=](int64_t i, auto read) { return h(i, read) * v(i, read); }) / n);
  write_row<T>(out, n, [=](int64_t i, auto read) {
    return (h(i, read) - first - v(i, read) * second) * rstd;
  });
}
template <class T>
void layer_norm_row_grad(char* const* p, int64_t n) {
  if (p[3])
    layer_norm_grad<T, true>(p, n);
  else
    layer_norm_grad<T, false>(p, n);
}

// p[0] += g * (x - mean) / deviation, the weight's gradient, and p[1] += g, the bias's.
// p: the two sums, g, x, {mean, 1/deviation}.
template <class T>
void layer_norm_row_sums(char* const* p, int64_t n) {
  T *weight = reinterpret_cast<T*>(p[0]), *bias = reinterpret_cast<T*>(p[1]);
  const T *g = reinterpret_cast<const T*>(p[2]), *x = reinterpret_cast<const T*>(p[3]),
          *stats = reinterpret_cast<const T*>(p[4]);
  const T mean = stats[0], rstd = stats[1];
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    weight[i] += g[i] * ((x[i] - mean) * rstd);
    bias[i] += g[i];
  }
}

ROW_KERNEL(softmax_row, 1)
ROW_KERNEL(log_softmax_row, 1)
ROW_KERNEL(logsumexp_row, 1)
ROW_KERNEL(scaled_softmax_row, 2)
ROW_KERNEL(softmax_row_grad, 2)
ROW_KERNEL(log_softmax_row_grad, 2)
ROW_KERNEL(layer_norm_row, 5)
ROW_KERNEL(layer_norm_row_grad, 4)
ROW_KERNEL(layer_norm_row_sums, 4)

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
