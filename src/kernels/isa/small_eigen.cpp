// Eigenvalues and eigenvectors of small symmetric matrices by Jacobi's rotations, a matrix per lane.
// Read kernels/linalg/small_matrices.h, then small_lanes.h.
//
// Rotations have no branches, converge quadratically, and give small eigenvalues at least as many
// digits as a reduction to tridiagonal form would. (Golub and Van Loan, Matrix Computations, 8.5.)
#include "kernels/isa/small_lanes.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

constexpr int kMostSweeps = 24;

template <class V>
ADJOINT_INLINE V larger(V a, V b) {
  return a > b ? a : b;
}

// One rotation of rows and columns p < q of the lower triangle of a, and of the columns of v.
template <bool Vectors, class V>
ADJOINT_INLINE void rotate(int n, V* a, V* v, int p, int q) {
  const V off = a[q * n + p], gap = a[q * n + q] - a[p * n + p];
  // tan of the angle: the smaller root of t^2 + 2 theta t - 1 with theta = gap / (2 off).
  const auto none = off == 0;
  const V theta = gap / (none ? splat<V>(1) : off + off);
  V t = 1 / (abs(theta) + root(theta * theta + 1));
  t = from_bits(bits(t) ^ sign_bit(theta));
  t = none ? V{} : t;
  const V c = 1 / root(t * t + 1), s = t * c;
  a[p * n + p] -= t * off;
  a[q * n + q] += t * off;
  a[q * n + p] = V{};
  auto turn = [&](V& x, V& y) __attribute__((always_inline)) {
    const V old = x;
    x = c * old - s * y;
    y = s * old + c * y;
  };
  for (int k = 0; k < p; ++k) turn(a[p * n + k], a[q * n + k]);
  for (int k = p + 1; k < q; ++k) turn(a[k * n + p], a[q * n + k]);
  for (int k = q + 1; k < n; ++k) turn(a[k * n + p], a[k * n + q]);
  if constexpr (Vectors) {
    for (int k = 0; k < n; ++k) turn(v[p * n + k], v[q * n + k]);
  }
}

// The largest element off the diagonal, against the largest of all: whether rotations are to go on.
template <class V>
ADJOINT_INLINE IntOf<V> unfinished(int n, const V* a) {
  V off{}, all{};
  for (int i = 0; i < n; ++i) {
    all = larger(all, abs(a[i * n + i]));
    for (int j = 0; j < i; ++j) off = larger(off, abs(a[i * n + j]));
  }
  constexpr ScalarOf<V> eps = sizeof(ScalarOf<V>) == 4 ? 0x1p-27f : 0x1p-56;
  return ~(off <= eps * larger(all, off));
}

// 1, or a power of two that keeps squares of the largest element from overflow and underflow.
template <class V>
ADJOINT_INLINE V scale_of(int n, const V* a) {
  using S = ScalarOf<V>;
  constexpr S high = sizeof(S) == 4 ? S(0x1p40) : S(0x1p400);
  V all{};
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j) all = larger(all, abs(a[i * n + j]));
  V scale = all > high ? splat<V>(sizeof(S) == 4 ? S(0x1p-80) : S(0x1p-700)) : splat<V>(1);
  return ((all < 1 / high) & (all > 0)) ? splat<V>(sizeof(S) == 4 ? S(0x1p80) : S(0x1p700)) : scale;
}

template <class T, bool Vectors>
void eigh(int n, const ConstPlace& from, T* w, const Place& to, int* info, int64_t begin,
          int64_t end) {
  using V = LanesOf<T>;
  using I = IntOf<V>;
  each_group<T>(begin, end, [&](const Group<T>& g) {
    V a[kLargest * kLargest], v[Vectors ? kLargest * kLargest : 1];  // rows of v are vectors
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j <= i; ++j) a[i * n + j] = g.read(from, i, j);
      if constexpr (Vectors)
        for (int j = 0; j < n; ++j) v[i * n + j] = splat<V>(i == j);
    }
    const V scale = scale_of(n, a);
    if (any(scale != 1))
      for (int i = 0; i < n; ++i)
        for (int j = 0; j <= i; ++j) a[i * n + j] *= scale;
    I left = unfinished(n, a);
    for (int sweep = 0; sweep < kMostSweeps && any(left); ++sweep) {
      for (int q = 1; q < n; ++q)
        for (int p = 0; p < q; ++p) rotate<Vectors>(n, a, v, p, q);
      left = unfinished(n, a);
    }
    g.write_ints(info, 1, -left);
    // In order, matrix by matrix.
    for (int lane = 0; lane < g.count; ++lane) {
      int order[kLargest];
      for (int i = 0; i < n; ++i) {
        int k = i;
        for (; k > 0 && a[order[k - 1] * n + order[k - 1]][lane] > a[i * n + i][lane]; --k)
          order[k] = order[k - 1];
        order[k] = i;
      }
      for (int k = 0; k < n; ++k) {
        w[(g.first + lane) * n + k] = a[order[k] * n + order[k]][lane] / scale[lane];
        if constexpr (Vectors) {
          T* column = static_cast<T*>(to.data) + (g.first + lane) * to.step + k * to.col;
          for (int i = 0; i < n; ++i) column[i * to.row] = v[order[k] * n + i][lane];
        }
      }
    }
  });
}

template <class T>
void either(int n, const ConstPlace& a, T* w, const Place& v, int* info, int64_t begin,
            int64_t end) {
  v.data ? eigh<T, true>(n, a, w, v, info, begin, end)
         : eigh<T, false>(n, a, w, v, info, begin, end);
}

}  // namespace

void small_eigh(int n, ConstPlace a, float* w, Place v, int* info, int64_t begin, int64_t end);
void small_eigh(int n, ConstPlace a, double* w, Place v, int* info, int64_t begin, int64_t end);

void small_eigh(int n, ConstPlace a, float* w, Place v, int* info, int64_t begin, int64_t end) {
  either(n, a, w, v, info, begin, end);
}
void small_eigh(int n, ConstPlace a, double* w, Place v, int* info, int64_t begin, int64_t end) {
  either(n, a, w, v, info, begin, end);
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
