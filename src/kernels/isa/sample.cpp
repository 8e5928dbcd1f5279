// Values between the elements of a plane, at any places: sums of a few elements times weights, for a
// tile of places at a time. Places are computed as PyTorch computes them. An element below zero is
// outside of the plane and counts nothing.
// Read kernels/sampling/grid_taps.h first, ops/nn/grid_sample.cpp for who calls them.
#include "kernels/sampling/grid_taps.h"

#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

using grid::kTile;
using grid::Places;
using grid::Settings;
using grid::Tables;

template <class T>
ADJOINT_INLINE T floor_of(T x) {
  if constexpr (sizeof(T) == 4)
    return __builtin_floorf(x);
  else
    return __builtin_floor(x);
}
template <class T>
ADJOINT_INLINE T nearest_of(T x) {
  if constexpr (sizeof(T) == 4)
    return __builtin_nearbyintf(x);
  else
    return __builtin_nearbyint(x);
}
template <class T>
ADJOINT_INLINE T size_of(T x) {
  return x < 0 ? -x : x;
}

// A coordinate in elements, and how it moves with the one of the grid.
template <class T>
struct Coordinate {
  T x, slope;
};

template <class T>
ADJOINT_INLINE Coordinate<T> clipped(Coordinate<T> c, T last) {
  const bool low = c.x <= 0, high = c.x >= last;
  c.slope = low || high ? T(0) : c.slope;
  c.x = low ? T(0) : high ? last : c.x;
  return c;
}

// Mirrored at `low` and at `low + span`.
template <class T>
ADJOINT_INLINE Coordinate<T> mirrored(Coordinate<T> c, T low, T span) {
  const T from = c.x - low, far = size_of(from);
  const T slope = from < 0 ? -c.slope : c.slope;
  const T there = far - floor_of(far / (2 * span)) * (2 * span);
  const bool back = there > span;
  return {(back ? 2 * span - there : there) + low, back ? -slope : slope};
}

template <class T, int Padding>
ADJOINT_INLINE Coordinate<T> inside(Coordinate<T> c, int64_t size, bool corners) {
  const T last = static_cast<T>(size - 1);
  if constexpr (Padding == grid::Border) c = clipped(c, last);
  if constexpr (Padding == grid::Reflection) {
    const T span = corners ? last : static_cast<T>(size);
    c = mirrored<T>(c, corners ? T(0) : T(-0.5), span > 0 ? span : T(1));
    c = clipped(c, last);
  }
  // Far outside, where no integer reaches, and where there is no number.
  c.x = size_of(c.x) < T(1 << 30) ? c.x : T(-100);
  return c;
}

// Converted in any case, which is defined: x was brought into reach. A choice before it would keep
// the loop from being vectorised.
template <class T>
ADJOINT_INLINE int32_t element(T x, int32_t size) {
  const int32_t i = static_cast<int32_t>(x);
  return i >= 0 && i < size ? i : -1;
}

// Keys' convolution with a = -0.75, for the four elements around a place t behind the second.
template <class T>
ADJOINT_INLINE void cubic_weights(T t, T* weight, T* slope) {
  const T a = T(-0.75);
  auto near = [=](T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [=](T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  auto near_slope = [=](T x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; };
  auto far_slope = [=](T x) { return (3 * a * x - 10 * a) * x + 8 * a; };
  weight[0] = far(t + 1), slope[0] = far_slope(t + 1);
  weight[1] = near(t), slope[1] = near_slope(t);
  weight[2] = near(1 - t), slope[2] = -near_slope(1 - t);
  weight[3] = far(2 - t), slope[3] = -far_slope(2 - t);
}

// Each loop of one axis: x are coordinates, `axes` elements apart.
template <class T, int Mode, int Padding>
void axis_places(const T* x, int64_t axes, int64_t n, int64_t size, bool corners,
                 grid::AxisTables<T>& t) {
  const T count = static_cast<T>(size);
  const int32_t whole = static_cast<int32_t>(size);
  const T slope = corners ? (count - 1) / 2 : count / 2;
  T line[kTile];
  for (int64_t o = 0; o < n; ++o) line[o] = x[o * axes];
  for (int64_t o = 0; o < n; ++o) {
    const T given = line[o];
    Coordinate<T> c{corners ? (given + 1) / 2 * (count - 1) : ((given + 1) * count - 1) / 2, slope};
    if constexpr (Mode == grid::Bicubic) {
      c.x = size_of(c.x) < T(1 << 30) ? c.x : T(-100);
      const T before = floor_of(c.x);
      T weight[4], slopes[4];
      cubic_weights(c.x - before, weight, slopes);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        // Elements, not the place between them, are brought inside.
        const T at = inside<T, Padding>({before + T(k - 1), T(1)}, size, corners).x;
        t.at[k][o] = element(at, whole);
        t.weight[k][o] = weight[k];
        t.slope[k][o] = slopes[k] * c.slope;
      }
    } else {
      c = inside<T, Padding>(c, size, corners);
      if constexpr (Mode == grid::Nearest) {
        t.at[0][o] = element(nearest_of(c.x), whole);
        t.weight[0][o] = 1;
        t.slope[0][o] = 0;
      } else {
        const T before = floor_of(c.x), past = c.x - before;
        t.at[0][o] = element(before, whole);
        t.at[1][o] = element(before + 1, whole);
        t.weight[0][o] = before + 1 - c.x;
        t.weight[1][o] = past;
        t.slope[0][o] = -c.slope;
        t.slope[1][o] = c.slope;
      }
    }
  }
}

template <class T, int Mode>
void axis_places(const Places& p, int64_t axis, const T* x, int64_t n, grid::AxisTables<T>& t) {
  const int64_t size = p.size[axis];
  const bool corners = p.how.align_corners;
  if (p.how.padding == grid::Zeros)
    axis_places<T, Mode, grid::Zeros>(x, p.axes, n, size, corners, t);
  else if (p.how.padding == grid::Border)
    axis_places<T, Mode, grid::Border>(x, p.axes, n, size, corners, t);
  else
    axis_places<T, Mode, grid::Reflection>(x, p.axes, n, size, corners, t);
}

// Every combination of the elements of all axes. p: the tables, the Places, the coordinates.
template <class T>
void grid_places(char* const* given, int64_t n) {
  Tables<T>& t = *reinterpret_cast<Tables<T>*>(given[0]);
  const Places& p = *reinterpret_cast<const Places*>(given[1]);
  const T* x = reinterpret_cast<const T*>(given[2]);
  const int each = p.how.taps();
  for (int64_t a = 0; a < p.axes; ++a) {
    if (p.how.mode == grid::Bilinear)
      axis_places<T, grid::Bilinear>(p, a, x + a, n, t.axis[a]);
    else if (p.how.mode == grid::Nearest)
      axis_places<T, grid::Nearest>(p, a, x + a, n, t.axis[a]);
    else
      axis_places<T, grid::Bicubic>(p, a, x + a, n, t.axis[a]);
  }
  t.taps = each * each * (p.axes == 3 ? each : 1);
  const int32_t width = static_cast<int32_t>(p.size[0]);
  const int32_t plane = static_cast<int32_t>(p.size[0] * p.size[1]);
  for (int64_t k = 0; k < t.taps; ++k) {
    const int64_t part[3] = {k % each, k / each % each, k / each / each};
    const auto &u = t.axis[0], &v = t.axis[1], &w = t.axis[2];
    const int32_t *iu = u.at[part[0]], *iv = v.at[part[1]], *iw = w.at[part[2]];
    const T *wu = u.weight[part[0]], *wv = v.weight[part[1]], *ww = w.weight[part[2]];
    const T *su = u.slope[part[0]], *sv = v.slope[part[1]], *sw = w.slope[part[2]];
    if (p.axes == 2) {
      for (int64_t o = 0; o < n; ++o) {
        t.at[k][o] = (iu[o] | iv[o]) < 0 ? -1 : iv[o] * width + iu[o];
        t.weight[k][o] = wu[o] * wv[o];
      }
      for (int64_t o = 0; o < n && p.with_slopes; ++o) {
        t.slope[0][k][o] = su[o] * wv[o];
        t.slope[1][k][o] = wu[o] * sv[o];
      }
      continue;
    }
    for (int64_t o = 0; o < n; ++o) {
      t.at[k][o] = (iu[o] | iv[o] | iw[o]) < 0 ? -1 : iw[o] * plane + iv[o] * width + iu[o];
      t.weight[k][o] = wu[o] * wv[o] * ww[o];
    }
    for (int64_t o = 0; o < n && p.with_slopes; ++o) {
      t.slope[0][k][o] = su[o] * wv[o] * ww[o];
      t.slope[1][k][o] = wu[o] * sv[o] * ww[o];
      t.slope[2][k][o] = wu[o] * wv[o] * sw[o];
    }
  }
}

template <class T>
ADJOINT_INLINE T taken(const T* in, int32_t at, T weight) {
  const T value = in[at < 0 ? 0 : at] * weight;
  return at < 0 ? T(0) : value;
}

// out[o] (=, or += for all combinations but the first) a few elements times their weights.
template <class T, int Count, bool Add>
ADJOINT_INLINE void sum_taps(T* __restrict out, const T* in, const T (*weight)[kTile],
                             const int32_t (*at)[kTile], int64_t n) {
  for (int64_t o = 0; o < n; ++o) {
    T sum = Add ? out[o] : T(0);
#pragma GCC unroll 4
    for (int k = 0; k < Count; ++k) sum += taken(in, at[k][o], weight[k][o]);
    out[o] = sum;
  }
}
template <class T>
ADJOINT_INLINE void sum_all_taps(T* out, const T* in, const T (*weight)[kTile],
                                 const int32_t (*at)[kTile], int64_t taps, int64_t n) {
  if (taps == 1) return sum_taps<T, 1, false>(out, in, weight, at, n);
  sum_taps<T, 4, false>(out, in, weight, at, n);
  for (int64_t k = 4; k < taps; k += 4) sum_taps<T, 4, true>(out, in, weight + k, at + k, n);
}

// The values of one channel. p: out, in, the tables.
template <class T>
void grid_values(char* const* p, int64_t n) {
  const Tables<T>& t = *reinterpret_cast<const Tables<T>*>(p[2]);
  sum_all_taps(reinterpret_cast<T*>(p[0]), reinterpret_cast<const T*>(p[1]), t.weight, t.at, t.taps,
               n);
}

// Adds to slope[a][o] what one channel gives to it. p: slope, in, the tables, g, {axes}.
template <class T>
void grid_slopes(char* const* p, int64_t n) {
  T* slope = reinterpret_cast<T*>(p[0]);
  const T* in = reinterpret_cast<const T*>(p[1]);
  const Tables<T>& t = *reinterpret_cast<const Tables<T>*>(p[2]);
  const T* g = reinterpret_cast<const T*>(p[3]);
  const int64_t axes = *reinterpret_cast<const int64_t*>(p[4]);
  T line[kTile];
  for (int64_t a = 0; a < axes; ++a) {
    sum_all_taps(line, in, t.slope[a], t.at, t.taps, n);
    T* to = slope + a * kTile;
    for (int64_t o = 0; o < n; ++o) to[o] += line[o] * g[o];
  }
}

// Adds one channel's gradient to the elements that its places were made of. p: out, g, the tables.
template <class T>
void grid_scatter(char* const* p, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  const T* g = reinterpret_cast<const T*>(p[1]);
  const Tables<T>& t = *reinterpret_cast<const Tables<T>*>(p[2]);
  for (int64_t k = 0; k < t.taps; ++k) {
    T product[kTile];
    for (int64_t o = 0; o < n; ++o) product[o] = t.weight[k][o] * g[o];
    for (int64_t o = 0; o < n; ++o) {
      if (t.at[k][o] >= 0) out[t.at[k][o]] += product[o];
    }
  }
}

ROW_KERNEL(grid_places, 2)
ROW_KERNEL(grid_values, 2)
ROW_KERNEL(grid_slopes, 4)
ROW_KERNEL(grid_scatter, 2)

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
