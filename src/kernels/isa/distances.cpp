// Euclidean distances of one point to many, and their gradients. Sums are taken in double precision,
// so that squares of floats neither overflow nor vanish. The many points lie coordinate by
// coordinate: row m of `others` has coordinate m of all n of them. Read next: ops/linalg/distance.cpp.
#include <cmath>

#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

constexpr int64_t kTile = 32;

// The distances to `lanes` points; a constant for whole tiles, so that the sums stay in registers.
template <class T>
ADJOINT_INLINE void tile_of_distances(T* out, const T* x, const T* others, int64_t coordinates,
                                      int64_t n, int64_t lanes) {
  double sum[kTile] = {};
  for (int64_t m = 0; m < coordinates; ++m) {
    const double at = x[m];
    const T* y = others + m * n;
    for (int64_t j = 0; j < lanes; ++j) {
      const double d = at - static_cast<double>(y[j]);
      sum[j] += d * d;
    }
  }
  for (int64_t j = 0; j < lanes; ++j) out[j] = static_cast<T>(std::sqrt(sum[j]));
}

// p: the n distances, the point, the others, how many coordinates.
template <class T>
void euclid_row(char* const* p, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  const T *x = reinterpret_cast<const T*>(p[1]), *y = reinterpret_cast<const T*>(p[2]);
  const int64_t coordinates = *reinterpret_cast<const int64_t*>(p[3]);
  int64_t j = 0;
  for (; j + kTile <= n; j += kTile) tile_of_distances(out + j, x, y + j, coordinates, n, kTile);
  if (j < n) tile_of_distances(out + j, x, y + j, coordinates, n, n - j);
}

// What the point's coordinates gain by the gradients g of its distances, and what the others' do,
// which is added to sums. Where points coincide, nothing.
// p: the point's, the others' (double), the point, the others, g, the distances, n doubles of
// scratch, how many coordinates.
template <class T>
void euclid_row_grad(char* const* p, int64_t n) {
  T* to_point = reinterpret_cast<T*>(p[0]);
  double *to_others = reinterpret_cast<double*>(p[1]), *w = reinterpret_cast<double*>(p[6]);
  const T *x = reinterpret_cast<const T*>(p[2]), *others = reinterpret_cast<const T*>(p[3]),
          *g = reinterpret_cast<const T*>(p[4]), *distance = reinterpret_cast<const T*>(p[5]);
  const int64_t coordinates = *reinterpret_cast<const int64_t*>(p[7]);
  for (int64_t j = 0; j < n; ++j) {
    const double length = distance[j];
    w[j] = length == 0 ? 0 : static_cast<double>(g[j]) / length;
  }
  constexpr int kLanes = 8;
  for (int64_t m = 0; m < coordinates; ++m) {
    const double at = x[m];
    const T* y = others + m * n;
    double *sums = to_others + m * n, lane[kLanes] = {};
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
      for (int k = 0; k < kLanes; ++k) {
        const double part = w[j + k] * (at - static_cast<double>(y[j + k]));
        lane[k] += part;
        sums[j + k] -= part;
      }
    }
    for (; j < n; ++j) {
      const double part = w[j] * (at - static_cast<double>(y[j]));
      lane[0] += part;
      sums[j] -= part;
    }
    double total = 0;
    for (double part : lane) total += part;
    to_point[m] = static_cast<T>(total);
  }
}

ROW_KERNEL(euclid_row, 3)
ROW_KERNEL(euclid_row_grad, 7)

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
