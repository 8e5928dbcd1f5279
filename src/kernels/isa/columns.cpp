// softmax, its logarithm and their gradients along an axis that is not the last: a few columns at a
// time are read down the axis, side by side in vectors, so that memory is never read against the
// grain. Read rows.cpp first: the arithmetic is the same.
//
// The last operand of each loop is {stride between the axis' elements, columns}, two int64.
#include "kernels/isa/math/exp.h"
#include "kernels/isa/math/log.h"
#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

constexpr int kGroup = 4;          // vectors of columns that are read together
constexpr int64_t kPartial = 128;  // elements that are added before they join the sum

// G vectors of columns, the last of which may be cut short.
template <class T, int G, bool Cut>
struct Group {
  using V = VecOf<T>;
  int64_t count = 0;  // columns of a vector that is cut short

  inline __attribute__((always_inline)) V read(const T* p) const {
    if constexpr (Cut)
      return load_part<T, V>(p, count);
    else
      return load<T, V>(p);
  }
  inline __attribute__((always_inline)) void write(T* p, V v) const {
    if constexpr (Cut)
      store_part<T, V>(p, v, count);
    else
      store<T, V>(p, v);
  }
  static constexpr int at(int k) { return k * kLanes<V>; }
};

// sum[k] = the sum of term(row, k) over all rows.
template <class V, int G, class F>
ADJOINT_INLINE void sum_down(int64_t n, V* sum, F term) {
  for (int k = 0; k < G; ++k) sum[k] = V{};
  for (int64_t begin = 0; begin < n; begin += kPartial) {
    const int64_t end = begin + kPartial < n ? begin + kPartial : n;
    V part[G] = {};
    for (int64_t r = begin; r < end; ++r) {
#pragma GCC unroll 4
      for (int k = 0; k < G; ++k) part[k] += term(r, k);
    }
    for (int k = 0; k < G; ++k) sum[k] += part[k];
  }
}

template <class T, int G, bool Cut>
ADJOINT_INLINE void largest_down(const Group<T, G, Cut>& c, const T* x, int64_t n, int64_t stride,
                                 VecOf<T>* top) {
  using V = VecOf<T>;
  for (int k = 0; k < G; ++k) top[k] = splat<V>(-kInf<V>);
  for (int64_t r = 0; r < n; ++r) {
#pragma GCC unroll 4
    for (int k = 0; k < G; ++k) {
      V v = c.read(x + r * stride + c.at(k));
      top[k] = v > top[k] ? v : top[k];
    }
  }
}

struct Softmax {
  template <class T, int G, bool Cut>
  ADJOINT_INLINE void run(const Group<T, G, Cut>& c, T* y, const T* x, const T*, int64_t n,
                          int64_t stride) {
    using V = VecOf<T>;
    V top[G], sum[G];
    largest_down(c, x, n, stride, top);
    sum_down<V, G>(n, sum, [&](int64_t r, int k) {
      V e = exp(c.read(x + r * stride + c.at(k)) - top[k]);
      c.write(y + r * stride + c.at(k), e);
      return e;
    });
    for (int k = 0; k < G; ++k) sum[k] = 1 / sum[k];
    for (int64_t r = 0; r < n; ++r) {
      for (int k = 0; k < G; ++k) {
        T* p = y + r * stride + c.at(k);
        c.write(p, c.read(p) * sum[k]);
      }
    }
  }
};

struct LogSoftmax {
  template <class T, int G, bool Cut>
  ADJOINT_INLINE void run(const Group<T, G, Cut>& c, T* y, const T* x, const T*, int64_t n,
                          int64_t stride) {
    using V = VecOf<T>;
    V top[G], sum[G];
    largest_down(c, x, n, stride, top);
    sum_down<V, G>(
        n, sum, [&](int64_t r, int k) { return exp(c.read(x + r * stride + c.at(k)) - top[k]); });
    for (int k = 0; k < G; ++k) sum[k] = log(sum[k]);
    for (int64_t r = 0; r < n; ++r) {
      for (int k = 0; k < G; ++k) {
        const int64_t i = r * stride + c.at(k);
        c.write(y + i, (c.read(x + i) - top[k]) - sum[k]);
      }
    }
  }
};

struct SoftmaxGrad {
  template <class T, int G, bool Cut>
  ADJOINT_INLINE void run(const Group<T, G, Cut>& c, T* out, const T* g, const T* y, int64_t n,
                          int64_t stride) {
    VecOf<T> dot[G];
    sum_down<VecOf<T>, G>(n, dot, [&](int64_t r, int k) {
      const int64_t i = r * stride + c.at(k);
      return c.read(g + i) * c.read(y + i);
    });
    for (int64_t r = 0; r < n; ++r) {
      for (int k = 0; k < G; ++k) {
        const int64_t i = r * stride + c.at(k);
        c.write(out + i, c.read(y + i) * (c.read(g + i) - dot[k]));
      }
    }
  }
};

struct LogSoftmaxGrad {
  template <class T, int G, bool Cut>
  ADJOINT_INLINE void run(const Group<T, G, Cut>& c, T* out, const T* g, const T* y, int64_t n,
                          int64_t stride) {
    VecOf<T> sum[G];
    sum_down<VecOf<T>, G>(n, sum,
                          [&](int64_t r, int k) { return c.read(g + r * stride + c.at(k)); });
    for (int64_t r = 0; r < n; ++r) {
      for (int k = 0; k < G; ++k) {
        const int64_t i = r * stride + c.at(k);
        c.write(out + i, c.read(g + i) - exp(c.read(y + i)) * sum[k]);
      }
    }
  }
};

template <class T, class K, int Inputs>
void columns(char* const* p, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  const T* first = reinterpret_cast<const T*>(p[1]);
  const T* second = reinterpret_cast<const T*>(p[Inputs]);
  const int64_t* geometry = reinterpret_cast<const int64_t*>(p[Inputs + 1]);
  const int64_t stride = geometry[0], count = geometry[1];
  constexpr int W = kLanes<VecOf<T>>;
  int64_t j = 0;
  for (; j + kGroup * W <= count; j += kGroup * W)
    K::run(Group<T, kGroup, false>{}, out + j, first + j, second + j, n, stride);
  for (; j + W <= count; j += W)
    K::run(Group<T, 1, false>{}, out + j, first + j, second + j, n, stride);
  if (j < count) K::run(Group<T, 1, true>{count - j}, out + j, first + j, second + j, n, stride);
}

template <class T>
void softmax_columns(char* const* p, int64_t n) {
  columns<T, Softmax, 1>(p, n);
}
template <class T>
void log_softmax_columns(char* const* p, int64_t n) {
  columns<T, LogSoftmax, 1>(p, n);
}
template <class T>
void softmax_columns_grad(char* const* p, int64_t n) {
  columns<T, SoftmaxGrad, 2>(p, n);
}
template <class T>
void log_softmax_columns_grad(char* const* p, int64_t n) {
  columns<T, LogSoftmaxGrad, 2>(p, n);
}

ROW_KERNEL(softmax_columns, 2)
ROW_KERNEL(log_softmax_columns, 2)
ROW_KERNEL(softmax_columns_grad, 3)
ROW_KERNEL(log_softmax_columns_grad, 3)

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
