// QR factors of batches by reflections. See linalg.h.
#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {

void qr_factor(DType dtype, int64_t count, int64_t m, int64_t n, void* a, void* tau) {
  const int64_t k = std::min(m, n);
  if (k == 0) return;
  with_element(dtype, [&]<class T>(T) {
    const int rows = size(m), cols = size(n);
    T answer{};
    lapack::geqrf(rows, cols, static_cast<T*>(a), rows, static_cast<T*>(tau), &answer, -1);
    const int lwork = asked(answer);
    share(count, 2 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      Piece<T> memory(lwork);
      if (!allocate(memory)) return false;
      T* work = memory.data;
      for (int64_t i = begin; i < end; ++i)
        lapack::geqrf(rows, cols, static_cast<T*>(a) + i * m * n, rows,
                      static_cast<T*>(tau) + i * k, work, lwork);
      return true;
    });
  });
}

void reflectors_product(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k, void* a,
                        const void* tau) {
  if (m == 0 || n == 0) return;
  with_element(dtype, [&]<class T>(T) {
    const int rows = size(m), cols = size(n), reflectors = size(k);
    T answer{};
    lapack::orgqr(rows, cols, reflectors, static_cast<T*>(a), rows, static_cast<const T*>(tau),
                  &answer, -1);
    const int lwork = asked(answer);
    share(count, 2 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      Piece<T> memory(lwork);
      if (!allocate(memory)) return false;
      T* work = memory.data;
      for (int64_t i = begin; i < end; ++i)
        lapack::orgqr(rows, cols, reflectors, static_cast<T*>(a) + i * m * n, rows,
                      static_cast<const T*>(tau) + i * k, work, lwork);
      return true;
    });
  });
}

void apply_reflectors(DType dtype, int64_t count, bool left, bool adjoint, int64_t m, int64_t n,
                      int64_t k, const void* a, const void* tau, void* c) {
  if (m == 0 || n == 0 || k == 0) return;
  with_element(dtype, [&]<class T>(T) {
    const int rows = size(m), cols = size(n), reflectors = size(k);
    const int64_t order = left ? m : n;
    const char side = left ? 'L' : 'R', trans = !adjoint ? 'N' : lapack::kComplex<T> ? 'C' : 'T';
    T answer{};
    lapack::ormqr(side, trans, rows, cols, reflectors, static_cast<const T*>(a), size(order),
                  static_cast<const T*>(tau), static_cast<T*>(c), rows, &answer, -1);
    const int lwork = asked(answer);
    share(count, 4 * double(m) * double(n) * double(k), [&](int64_t begin, int64_t end) {
      Piece<T> memory(lwork);
      if (!allocate(memory)) return false;
      T* work = memory.data;
      for (int64_t i = begin; i < end; ++i)
        lapack::ormqr(side, trans, rows, cols, reflectors, static_cast<const T*>(a) + i * order * k,
                      size(order), static_cast<const T*>(tau) + i * k,
                      static_cast<T*>(c) + i * m * n, rows, work, lwork);
      return true;
    });
  });
}

}  // namespace adjoint::linalg
