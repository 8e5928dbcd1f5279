// OpenBLAS under names that overload on the element type. Row-major; one thread per call, always:
// a second pool beside ours would stall both.
#pragma once
#include <cblas.h>

#include <complex>

namespace adjoint::blas {

// Called before the first product. The library may have started idle threads when it was loaded
// (OPENBLAS_NUM_THREADS=1 in the environment prevents that); after this they stay idle.
inline void use_one_thread() {
  static const bool done = (scipy_openblas_set_num_threads(1), true);
  (void)done;
}

inline CBLAS_TRANSPOSE flag(bool trans) { return trans ? CblasTrans : CblasNoTrans; }

// One block per element type: real types pass scalars by value, complex types by address.
#define ADJOINT_BLAS(T, letter, SCALAR)                                                          \
  inline void gemm(bool ta, bool tb, int m, int n, int k, T alpha, const T* a, int lda,          \
                   const T* b, int ldb, T beta, T* c, int ldc) {                                 \
    scipy_cblas_##letter##gemm(CblasRowMajor, flag(ta), flag(tb), m, n, k, SCALAR alpha, a, lda, \
                               b, ldb, SCALAR beta, c, ldc);                                     \
  }                                                                                              \
  inline void gemv(bool ta, int m, int n, T alpha, const T* a, int lda, const T* x, int incx,    \
                   T beta, T* y, int incy) {                                                     \
    scipy_cblas_##letter##gemv(CblasRowMajor, flag(ta), m, n, SCALAR alpha, a, lda, x, incx,     \
                               SCALAR beta, y, incy);                                            \
  }
ADJOINT_BLAS(float, s, )
ADJOINT_BLAS(double, d, )
ADJOINT_BLAS(std::complex<float>, c, &)
ADJOINT_BLAS(std::complex<double>, z, &)
#undef ADJOINT_BLAS

inline float dot(int n, const float* x, const float* y) { return scipy_cblas_sdot(n, x, 1, y, 1); }
inline double dot(int n, const double* x, const double* y) {
  return scipy_cblas_ddot(n, x, 1, y, 1);
}
inline std::complex<float> dot(int n, const std::complex<float>* x, const std::complex<float>* y) {
  std::complex<float> out;
  scipy_cblas_cdotu_sub(n, x, 1, y, 1, &out);
  return out;
}
inline std::complex<double> dot(int n, const std::complex<double>* x,
                                const std::complex<double>* y) {
  std::complex<double> out;
  scipy_cblas_zdotu_sub(n, x, 1, y, 1, &out);
  return out;
}

}  // namespace adjoint::blas
