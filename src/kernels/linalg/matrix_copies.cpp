// Matrices on their way into columns, and triangles that are cleared. See linalg.h.
#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {

char* scratch_memory(size_t bytes) noexcept {
  static thread_local Scratch scratch;
  return scratch.get(bytes);
}
void gather(DType dtype, int64_t count, int64_t m, int64_t n, ConstPlace from, void* columns) {
  if (m * n == 0) return;
  with_element(dtype, [&]<class T>(T) {
    share(count, static_cast<double>(m) * static_cast<double>(n), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        copy_columns(m, n, static_cast<const T*>(from.data) + k * from.step, from.row, from.col,
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
