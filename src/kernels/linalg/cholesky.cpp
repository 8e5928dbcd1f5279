// Cholesky factors of batches. See linalg.h.
#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {

void cholesky(DType dtype, int64_t count, int64_t n, bool upper, ConstPlace a, void* out,
              int* info) {
  if (is_small(dtype, n)) {
    const Place l{out, upper ? n : 1, upper ? 1 : n, n * n};
    const ConstPlace from = upper ? a.transposed() : a;
    share(count, cube(n), [&](int64_t begin, int64_t end) {
      small::loops(dtype).cholesky(static_cast<int>(n), from, l, info, begin, end);
      return true;
    });
    return;
  }
  gather(dtype, count, n, n, a, out);
  with_element(dtype, [&]<class T>(T) {
    const int size_n = size(n);
    share(count, cube(n) / 3, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        info[k] =
            lapack::potrf(upper ? 'U' : 'L', size_n, static_cast<T*>(out) + k * n * n, leading(n));
      return true;
    });
  });
  clear_triangle(dtype, count, n, n, !upper, false, out);
}

void cholesky_inverse(DType dtype, int64_t count, int64_t n, bool upper, void* a, int* info) {
  with_element(dtype, [&]<class T>(T) {
    const int size_n = size(n);
    share(count, cube(n), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        T* x = static_cast<T*>(a) + k * n * n;
        info[k] = lapack::potri(upper ? 'U' : 'L', size_n, x, leading(n));
        // The other triangle, by symmetry.
        for (int64_t j = 0; j < n; ++j) {
          for (int64_t i = j + 1; i < n; ++i) {
            T &low = x[j * n + i], &high = x[i * n + j];
            if constexpr (lapack::kComplex<T>)
              upper ? low = std::conj(high) : high = std::conj(low);
            else
              upper ? low = high : high = low;
          }
        }
      }
      return true;
    });
  });
}

}  // namespace adjoint::linalg
