// Matrices on their way into columns, and triangles that are cleared. See linalg.h.
#include <cstring>

#include "kernels/matrix_batches.h"

namespace adjoint::linalg {
namespace {

// Square pieces: a few rows and a few columns at a time stay in the cache.
template <class T>
void gather_one(int64_t m, int64_t n, const T* from, int64_t row, int64_t col, T* to) {
  constexpr int64_t kTile = 16;
  if (row == 1 && m > 1) {
    for (int64_t j = 0; j < n; ++j)
      std::memcpy(to + j * m, from + j * col, static_cast<size_t>(m) * sizeof(T));
    return;
  }
  for (int64_t j0 = 0; j0 < n; j0 += kTile) {
    const int64_t j1 = std::min(n, j0 + kTile);
    for (int64_t i0 = 0; i0 < m; i0 += kTile) {
      const int64_t i1 = std::min(m, i0 + kTile);
      for (int64_t j = j0; j < j1; ++j)
        for (int64_t i = i0; i < i1; ++i) to[j * m + i] = from[i * row + j * col];
    }
  }
}

}  // namespace

void gather(DType dtype, int64_t count, int64_t m, int64_t n, ConstPlace from, void* columns) {
  if (m * n == 0) return;
  with_element(dtype, [&]<class T>(T) {
    share(count, static_cast<double>(m) * static_cast<double>(n), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        gather_one(m, n, static_cast<const T*>(from.data) + k * from.step, from.row, from.col,
                   static_cast<T*>(columns) + k * m * n);
      return true;
    });
  });
}

void clear_triangle(DType dtype, int64_t count, int64_t m, int64_t n, bool above, bool unit,
                    void* columns) {
  with_element(dtype, [&]<class T>(T) {
    share(count, static_cast<double>(m) * static_cast<double>(n), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        T* a = static_cast<T*>(columns) + k * m * n;
        for (int64_t j = 0; j < n; ++j) {
          const int64_t diagonal = std::min(j, m);
          if (above)
            std::fill(a + j * m, a + j * m + diagonal, T(0));
          else if (j + 1 < m)
            std::fill(a + j * m + j + 1, a + (j + 1) * m, T(0));
          if (unit && j < m) a[j * m + j] = T(1);
        }
      }
      return true;
    });
  });
}

}  // namespace adjoint::linalg
