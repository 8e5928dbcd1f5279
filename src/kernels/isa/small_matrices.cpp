// Factorizations and solutions of small systems, a matrix per lane. Read kernels/linalg/small_matrices.h, then
// small_lanes.h.
//
// Note [Pivots in lanes]
// Each lane chooses its own pivot. Rows are exchanged by selecting lanes: row k with each row below
// it that some lane wants. That costs as much as the elimination, and a vector holds eight of them.
#include "kernels/isa/small_lanes.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

// 1 / x, and whether products with it serve in place of divisions by x: not by the smallest
// numbers, whose reciprocals overflow. LAPACK asks the same.
template <class V>
struct Reciprocal {
  V value;
  bool exact;  // divide
  V divisor;
  explicit Reciprocal(V x) : value(1 / x), divisor(x) {
    using S = ScalarOf<V>;
    constexpr S least = sizeof(S) == 4 ? S(0x1p-126) : S(0x1p-1022);
    exact = any(abs(x) < least);
  }
  V of(V y) const { return exact ? y / divisor : y * value; }
};

template <class T>
void cholesky(int n, ConstPlace from, Place to, int* info, int64_t begin, int64_t end) {
  using V = LanesOf<T>;
  using I = IntOf<V>;
  each_group<T>(begin, end, [&](const Group<T>& g) {
    V a[kLargest * kLargest];
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j) a[i * n + j] = g.read(from, i, j);
    I failed = {};
    for (int k = 0; k < n; ++k) {
      const V d = a[k * n + k];
      const I bad = ~(d > 0) & (failed == 0);
      failed = bad ? I{} + (k + 1) : failed;
      const V r = root(d);
      a[k * n + k] = r;
      const Reciprocal<V> scale(r);
      for (int i = k + 1; i < n; ++i) a[i * n + k] = scale.of(a[i * n + k]);
      for (int i = k + 1; i < n; ++i) {
        const V x = a[i * n + k];
        for (int j = k + 1; j <= i; ++j) a[i * n + j] -= x * a[j * n + k];
      }
    }
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) g.write(to, i, j, j <= i ? a[i * n + j] : V{});
    g.write_ints(info, 1, failed);
  });
}

// Eliminates in place; `pivot[k]` counts from 0.
template <class V>
ADJOINT_INLINE IntOf<V> eliminate(int n, V* a, IntOf<V>* pivot) {
  using I = IntOf<V>;
  I zero = {};
  for (int k = 0; k < n; ++k) {
    V best = abs(a[k * n + k]);
    I at = I{} + k;
    for (int i = k + 1; i < n; ++i) {
      const V size = abs(a[i * n + k]);
      const auto larger = size > best;
      best = larger ? size : best;
      at = larger ? I{} + i : at;
    }
    pivot[k] = at;
    for (int i = k + 1; i < n; ++i) {  // Note [Pivots in lanes]
      const I here = at == i;
      if (!any(here)) continue;
      for (int j = 0; j < n; ++j) {
        const V x = a[k * n + j], y = a[i * n + j];
        a[k * n + j] = here ? y : x;
        a[i * n + j] = here ? x : y;
      }
    }
    const V d = a[k * n + k];
    const I none = d == 0;
    zero = (none & (zero == 0)) ? I{} + (k + 1) : zero;
    const Reciprocal<V> scale(none ? V{} + 1 : d);  // below a zero there are zeros
    for (int i = k + 1; i < n; ++i) {
      const V x = scale.of(a[i * n + k]);
      a[i * n + k] = x;
      for (int j = k + 1; j < n; ++j) a[i * n + j] -= x * a[k * n + j];
    }
  }
  return zero;
}

// x = u^-1 x over `m` columns side by side, or u^-T x where `lower`. Element (i, j) of the triangle
// is t[i * row + j * col].
template <class V>
ADJOINT_INLINE void substitute(int n, int m, const V* t, int row, int col, bool lower, bool unit,
                               V* x) {
  for (int step = 0; step < n; ++step) {
    const int k = lower ? step : n - 1 - step;
    if (!unit) {
      const Reciprocal<V> scale(t[k * row + k * col]);
      for (int c = 0; c < m; ++c) x[k * m + c] = scale.of(x[k * m + c]);
    }
    for (int i = lower ? k + 1 : 0; i < (lower ? n : k); ++i) {
      const V f = t[i * row + k * col];
      for (int c = 0; c < m; ++c) x[i * m + c] -= f * x[k * m + c];
    }
  }
}

template <class V>
ADJOINT_INLINE void exchange(int n, int m, const IntOf<V>* pivot, bool backwards, V* x) {
  for (int step = 0; step < n; ++step) {
    const int k = backwards ? n - 1 - step : step;
    for (int i = k + 1; i < n; ++i) {
      const IntOf<V> here = pivot[k] == i;
      if (!any(here)) continue;
      for (int c = 0; c < m; ++c) {
        const V a = x[k * m + c], b = x[i * m + c];
        x[k * m + c] = here ? b : a;
        x[i * m + c] = here ? a : b;
      }
    }
  }
}

template <class V>
ADJOINT_INLINE void substitute_lu(int n, int m, const V* lu, const IntOf<V>* pivot, bool transposed,
                                  V* x) {
  if (!transposed) {
    exchange(n, m, pivot, false, x);
    substitute(n, m, lu, n, 1, true, true, x);
    substitute(n, m, lu, n, 1, false, false, x);
  } else {
    substitute(n, m, lu, 1, n, true, false, x);
    substitute(n, m, lu, 1, n, false, true, x);
    exchange(n, m, pivot, true, x);
  }
}

template <class T>
void read_square(const Group<T>& g, int n, const ConstPlace& from, LanesOf<T>* a) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) a[i * n + j] = g.read(from, i, j);
}
template <class T>
void write_square(const Group<T>& g, int n, const LanesOf<T>* a, const Place& to) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) g.write(to, i, j, a[i * n + j]);
}

// A few columns of the right side at a time, so that they stay in the nearest cache.
template <class T, class F>
ADJOINT_INLINE void each_columns(const Group<T>& g, int n, int columns, const ConstPlace& b,
                                 const Place& x, F&& solve) {
  using V = LanesOf<T>;
  constexpr int kColumns = 8;
  V part[kLargest * kColumns];
  for (int c = 0; c < columns; c += kColumns) {
    const int m = columns - c < kColumns ? columns - c : kColumns;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < m; ++j) part[i * m + j] = g.read(b, i, c + j);
    solve(m, part);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < m; ++j) g.write(x, i, c + j, part[i * m + j]);
  }
}

template <class T>
void solve(int n, int columns, ConstPlace a, ConstPlace b, Place to, int* pivots, int* info,
           Place x, int64_t begin, int64_t end) {
  using V = LanesOf<T>;
  using I = IntOf<V>;
  each_group<T>(begin, end, [&](const Group<T>& g) {
    V m[kLargest * kLargest];
    I pivot[kLargest];
    read_square(g, n, a, m);
    g.write_ints(info, 1, eliminate(n, m, pivot));
    write_square(g, n, m, to);
    for (int k = 0; k < n; ++k) g.write_ints(pivots + k, n, pivot[k] + 1);
    each_columns(g, n, columns, b, x,
                 [&](int width, V* part) { substitute_lu(n, width, m, pivot, false, part); });
  });
}

template <class T>
void lu(int n, ConstPlace a, Place to, int* pivots, int* info, int64_t begin, int64_t end) {
  solve<T>(n, 0, a, a, to, pivots, info, to, begin, end);
}

template <class T>
void lu_solve(int n, int columns, ConstPlace from, const int* pivots, int64_t pivot_step,
              ConstPlace b, Place x, bool transposed, int64_t begin, int64_t end) {
  using V = LanesOf<T>;
  using I = IntOf<V>;
  each_group<T>(begin, end, [&](const Group<T>& g) {
    V m[kLargest * kLargest];
    I pivot[kLargest];
    read_square(g, n, from, m);
    for (int k = 0; k < n; ++k) {
      for (int lane = 0; lane < g.kWidth; ++lane) {
        const int64_t number = g.first + (lane < g.count ? lane : g.count - 1);
        pivot[k][lane] = pivots[number * pivot_step + k] - 1;
      }
    }
    each_columns(g, n, columns, b, x,
                 [&](int width, V* part) { substitute_lu(n, width, m, pivot, transposed, part); });
  });
}

template <class T>
void triangular(int n, int columns, ConstPlace a, ConstPlace b, Place x, bool upper, bool unit,
                int64_t begin, int64_t end) {
  using V = LanesOf<T>;
  each_group<T>(begin, end, [&](const Group<T>& g) {
    V t[kLargest * kLargest];
    for (int i = 0; i < n; ++i) {
      const int from = upper ? i + unit : 0, to = upper ? n : i + !unit;
      for (int j = from; j < to; ++j) t[i * n + j] = g.read(a, i, j);
    }
    each_columns(g, n, columns, b, x,
                 [&](int width, V* part) { substitute(n, width, t, n, 1, !upper, unit, part); });
  });
}

}  // namespace

void small_eigh(int n, ConstPlace a, float* w, Place v, int* info, int64_t begin, int64_t end);
void small_eigh(int n, ConstPlace a, double* w, Place v, int* info, int64_t begin, int64_t end);

namespace {

template <class T>
void eigh(int n, ConstPlace a, void* w, Place v, int* info, int64_t begin, int64_t end) {
  small_eigh(n, a, static_cast<T*>(w), v, info, begin, end);
}

template <class T>
constexpr small::Loops loops_of() {
  return {cholesky<T>, lu<T>, lu_solve<T>, solve<T>, triangular<T>, eigh<T>};
}

}  // namespace

extern const small::Loops kSmallLoops[2];
const small::Loops kSmallLoops[2] = {loops_of<float>(), loops_of<double>()};

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
