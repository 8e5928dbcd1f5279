// Singular values and vectors of batches. See linalg.h.
#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {
namespace {

// gesdd's real working memory for complex matrices, by its documentation.
int64_t real_memory(bool vectors, int64_t m, int64_t n) {
  const int64_t low = std::min(m, n), high = std::max(m, n);
  if (!vectors) return 7 * low;
  return std::max(5 * low * low + 5 * low, 2 * high * low + 2 * low * low + low);
}

}  // namespace

void svd(DType dtype, int64_t count, int64_t m, int64_t n, bool full, void* a, void* s, void* u,
         void* vh, int* info) {
  const int64_t k = std::min(m, n);
  if (k == 0) return std::fill(info, info + count, 0);
  with_element(dtype, [&]<class T>(T) {
    using R = lapack::Real<T>;
    const int rows = size(m), cols = size(n);
    const char job = !u ? 'N' : full ? 'A' : 'S';
    const int64_t u_cols = full ? m : k, v_rows = full ? n : k;
    const int ldv = u ? size(v_rows) : 1, ldu = u ? rows : 1;
    T answer{};
    R none{};
    int iwork_answer = 0;
    lapack::gesdd(job, rows, cols, static_cast<T*>(a), rows, static_cast<R*>(s), static_cast<T*>(u),
                  ldu, static_cast<T*>(vh), ldv, &answer, -1, &none, &iwork_answer);
    const int lwork = asked(answer);
    const int64_t lrwork = lapack::kComplex<T> ? real_memory(u, m, n) : 1;
    share(count, 10 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      Piece<T> work(lwork);
      Piece<R> reals(lrwork);
      Piece<int> ints(8 * k);
      if (!allocate(work, reals, ints)) return false;
      for (int64_t i = begin; i < end; ++i)
        info[i] = lapack::gesdd(job, rows, cols, static_cast<T*>(a) + i * m * n, rows,
                                static_cast<R*>(s) + i * k,
                                u ? static_cast<T*>(u) + i * m * u_cols : nullptr, ldu,
                                u ? static_cast<T*>(vh) + i * v_rows * n : nullptr, ldv, work.data,
                                lwork, reals.data, ints.data);
      return true;
    });
  });
}

}  // namespace adjoint::linalg
