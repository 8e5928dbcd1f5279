// Factors of symmetric and Hermitian matrices that need not be positive-definite. See linalg.h.
#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {

void ldl_factor(DType dtype, int64_t count, int64_t n, bool hermitian, void* a, int* pivots,
                int* info) {
  if (n == 0) return std::fill(info, info + count, 0);
  with_element(dtype, [&]<class T>(T) {
    const int order = size(n);
    auto factor = [&](T* x, int* rows, T* work, int lwork) {
      return hermitian ? lapack::hetrf('L', order, x, order, rows, work, lwork)
                       : lapack::sytrf('L', order, x, order, rows, work, lwork);
    };
    T answer{};
    factor(static_cast<T*>(a), pivots, &answer, -1);
    const int lwork = asked(answer);
    share(count, cube(n) / 3, [&](int64_t begin, int64_t end) {
      Piece<T> memory(lwork);
      if (!allocate(memory)) return false;
      T* work = memory.data;
      for (int64_t k = begin; k < end; ++k)
        info[k] = factor(static_cast<T*>(a) + k * n * n, pivots + k * n, work, lwork);
      return true;
    });
  });
}

void ldl_solve(DType dtype, int64_t count, int64_t n, int64_t columns, bool hermitian,
               const void* ld, const int* pivots, void* b) {
  if (n == 0 || columns == 0) return;
  with_element(dtype, [&]<class T>(T) {
    const int order = size(n), width = size(columns);
    share(count, 2 * double(n) * double(n) * double(columns), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const T* x = static_cast<const T*>(ld) + k * n * n;
        T* y = static_cast<T*>(b) + k * n * columns;
        if (hermitian)
          lapack::hetrs('L', order, width, x, order, pivots + k * n, y, order);
        else
          lapack::sytrs('L', order, width, x, order, pivots + k * n, y, order);
      }
      return true;
    });
  });
}

}  // namespace adjoint::linalg
