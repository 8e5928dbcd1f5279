// LAPACK, as OpenBLAS carries it, under names that overload on the element type. Column-major, one
// thread per call (kernels/products/blas.h). Each function returns LAPACK's info: 0, or which pivot, minor or
// argument it stopped at.
//
// Fortran takes everything by address, and the lengths of strings behind the other arguments.
// Routines that need working memory are asked how much first: pass lwork = -1.
// Read next: linalg.h for the batches that call these.
#pragma once
#include <complex>
#include <cstddef>
#include <type_traits>

#include "kernels/products/blas.h"

namespace adjoint::lapack {

template <class T>
struct RealOf {
  using type = T;
};
template <class R>
struct RealOf<std::complex<R>> {
  using type = R;
};
template <class T>
using Real = typename RealOf<T>::type;
template <class T>
inline constexpr bool kComplex = !std::is_same_v<T, Real<T>>;

using C64 = std::complex<float>;
using C128 = std::complex<double>;

// --- what all four element types have, with one signature ----------------------------------------
// F is Fortran's name; adjoint routines are called "or..." for real and "un..." for complex types,
// symmetric ones "sy..." and "he...".
#define ADJOINT_LAPACK(T, s, or_, sy)                                                             \
  extern "C" {                                                                                    \
  void scipy_##s##potrf_(const char*, const int*, T*, const int*, int*, size_t);                  \
  void scipy_##s##potri_(const char*, const int*, T*, const int*, int*, size_t);                  \
  void scipy_##s##potrs_(const char*, const int*, const int*, const T*, const int*, T*,           \
                         const int*, int*, size_t);                                               \
  void scipy_##s##getrf_(const int*, const int*, T*, const int*, int*, int*);                     \
  void scipy_##s##getrs_(const char*, const int*, const int*, const T*, const int*, const int*,   \
                         T*, const int*, int*, size_t);                                           \
  void scipy_##s##getri_(const int*, T*, const int*, const int*, T*, const int*, int*);           \
  void scipy_##s##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);       \
  void scipy_##or_##gqr_(const int*, const int*, const int*, T*, const int*, const T*, T*,        \
                         const int*, int*);                                                       \
  void scipy_##or_##mqr_(const char*, const char*, const int*, const int*, const int*, const T*,  \
                         const int*, const T*, T*, const int*, T*, const int*, int*, size_t,      \
                         size_t);                                                                 \
  void scipy_##s##sytrf_(const char*, const int*, T*, const int*, int*, T*, const int*, int*,     \
                         size_t);                                                                 \
  void scipy_##s##sytrs_(const char*, const int*, const int*, const T*, const int*, const int*,   \
                         T*, const int*, int*, size_t);                                           \
  void scipy_##s##gbtrf_(const int*, const int*, const int*, const int*, T*, const int*, int*,    \
                         int*);                                                                   \
  void scipy_##s##gels_(const char*, const int*, const int*, const int*, T*, const int*, T*,      \
                        const int*, T*, const int*, int*, size_t);                                \
  }                                                                                               \
  inline int potrf(char uplo, int n, T* a, int lda) {                                             \
    int info = 0;                                                                                 \
    scipy_##s##potrf_(&uplo, &n, a, &lda, &info, 1);                                              \
    return info;                                                                                  \
  }                                                                                               \
  inline int potri(char uplo, int n, T* a, int lda) {                                             \
    int info = 0;                                                                                 \
    scipy_##s##potri_(&uplo, &n, a, &lda, &info, 1);                                              \
    return info;                                                                                  \
  }                                                                                               \
  inline int potrs(char uplo, int n, int nrhs, const T* a, int lda, T* b, int ldb) {              \
    int info = 0;                                                                                 \
    scipy_##s##potrs_(&uplo, &n, &nrhs, a, &lda, b, &ldb, &info, 1);                              \
    return info;                                                                                  \
  }                                                                                               \
  inline int getrf(int m, int n, T* a, int lda, int* pivots) {                                    \
    int info = 0;                                                                                 \
    scipy_##s##getrf_(&m, &n, a, &lda, pivots, &info);                                            \
    return info;                                                                                  \
  }                                                                                               \
  inline int getrs(char trans, int n, int nrhs, const T* a, int lda, const int* pivots, T* b,     \
                   int ldb) {                                                                     \
    int info = 0;                                                                                 \
    scipy_##s##getrs_(&trans, &n, &nrhs, a, &lda, pivots, b, &ldb, &info, 1);                     \
    return info;                                                                                  \
  }                                                                                               \
  inline int getri(int n, T* a, int lda, const int* pivots, T* work, int lwork) {                 \
    int info = 0;                                                                                 \
    scipy_##s##getri_(&n, a, &lda, pivots, work, &lwork, &info);                                  \
    return info;                                                                                  \
  }                                                                                               \
  inline int gbtrf(int m, int n, int lower, int upper, T* ab, int ldab, int* pivots) {            \
    int info = 0;                                                                                 \
    scipy_##s##gbtrf_(&m, &n, &lower, &upper, ab, &ldab, pivots, &info);                          \
    return info;                                                                                  \
  }                                                                                               \
  inline int geqrf(int m, int n, T* a, int lda, T* tau, T* work, int lwork) {                     \
    int info = 0;                                                                                 \
    scipy_##s##geqrf_(&m, &n, a, &lda, tau, work, &lwork, &info);                                 \
    return info;                                                                                  \
  }                                                                                               \
  inline int orgqr(int m, int n, int k, T* a, int lda, const T* tau, T* work, int lwork) {        \
    int info = 0;                                                                                 \
    scipy_##or_##gqr_(&m, &n, &k, a, &lda, tau, work, &lwork, &info);                             \
    return info;                                                                                  \
  }                                                                                               \
  inline int ormqr(char side, char trans, int m, int n, int k, const T* a, int lda, const T* tau, \
                   T* c, int ldc, T* work, int lwork) {                                           \
    int info = 0;                                                                                 \
    scipy_##or_##mqr_(&side, &trans, &m, &n, &k, a, &lda, tau, c, &ldc, work, &lwork, &info, 1,   \
                      1);                                                                         \
    return info;                                                                                  \
  }                                                                                               \
  inline int sytrf(char uplo, int n, T* a, int lda, int* pivots, T* work, int lwork) {            \
    int info = 0;                                                                                 \
    scipy_##s##sytrf_(&uplo, &n, a, &lda, pivots, work, &lwork, &info, 1);                        \
    return info;                                                                                  \
  }                                                                                               \
  inline int sytrs(char uplo, int n, int nrhs, const T* a, int lda, const int* pivots, T* b,      \
                   int ldb) {                                                                     \
    int info = 0;                                                                                 \
    scipy_##s##sytrs_(&uplo, &n, &nrhs, a, &lda, pivots, b, &ldb, &info, 1);                      \
    return info;                                                                                  \
  }                                                                                               \
  inline int gels(char trans, int m, int n, int nrhs, T* a, int lda, T* b, int ldb, T* work,      \
                  int lwork) {                                                                    \
    int info = 0;                                                                                 \
    scipy_##s##gels_(&trans, &m, &n, &nrhs, a, &lda, b, &ldb, work, &lwork, &info, 1);            \
    return info;                                                                                  \
  }
ADJOINT_LAPACK(float, s, sor, ssy)
ADJOINT_LAPACK(double, d, dor, dsy)
ADJOINT_LAPACK(C64, c, cun, che)
ADJOINT_LAPACK(C128, z, zun, zhe)
#undef ADJOINT_LAPACK

// --- what differs between real and complex types -------------------------------------------------
// Complex forms take real working memory too. The real forms ignore `rwork`, so that a batch is
// written once for all types.
#define ADJOINT_LAPACK_REAL(T, s)                                                                  \
  extern "C" {                                                                                     \
  void scipy_##s##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*,  \
                         T*, const int*, T*, const int*, int*, int*, size_t);                      \
  void scipy_##s##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, T*, T*, \
                         const int*, T*, const int*, T*, const int*, int*, size_t, size_t);        \
  void scipy_##s##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, \
                         int*, const int*, int*, size_t, size_t);                                  \
  void scipy_##s##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, T*,          \
                        const int*, T*, const int*, T*, const int*, int*, size_t, size_t);         \
  void scipy_##s##gelsd_(const int*, const int*, const int*, T*, const int*, T*, const int*, T*,   \
                         const T*, int*, T*, const int*, int*, int*);                              \
  void scipy_##s##gelss_(const int*, const int*, const int*, T*, const int*, T*, const int*, T*,   \
                         const T*, int*, T*, const int*, int*);                                    \
  void scipy_##s##gelsy_(const int*, const int*, const int*, T*, const int*, T*, const int*, int*, \
                         const T*, int*, T*, const int*, int*);                                    \
  }                                                                                                \
  inline int gesdd(char job, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* vt, int ldvt,    \
                   T* work, int lwork, T*, int* iwork) {                                           \
    int info = 0;                                                                                  \
    scipy_##s##gesdd_(&job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &lwork, iwork, &info,    \
                      1);                                                                          \
    return info;                                                                                   \
  }                                                                                                \
  inline int gesvd(char jobu, char jobv, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* vt,  \
                   int ldvt, T* work, int lwork, T*) {                                             \
    int info = 0;                                                                                  \
    scipy_##s##gesvd_(&jobu, &jobv, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &lwork, &info,   \
                      1, 1);                                                                       \
    return info;                                                                                   \
  }                                                                                                \
  inline int heevd(char job, char uplo, int n, T* a, int lda, T* w, T* work, int lwork, T*, int,   \
                   int* iwork, int liwork) {                                                       \
    int info = 0;                                                                                  \
    scipy_##s##syevd_(&job, &uplo, &n, a, &lda, w, work, &lwork, iwork, &liwork, &info, 1, 1);     \
    return info;                                                                                   \
  }                                                                                                \
  inline int hetrf(char uplo, int n, T* a, int lda, int* pivots, T* work, int lwork) {             \
    return sytrf(uplo, n, a, lda, pivots, work, lwork);                                            \
  }                                                                                                \
  inline int hetrs(char uplo, int n, int nrhs, const T* a, int lda, const int* pivots, T* b,       \
                   int ldb) {                                                                      \
    return sytrs(uplo, n, nrhs, a, lda, pivots, b, ldb);                                           \
  }                                                                                                \
  inline int geev(char jobv, int n, T* a, int lda, T* re, T* im, T* v, int ldv, T* work,           \
                  int lwork) {                                                                     \
    int info = 0;                                                                                  \
    const char none = 'N';                                                                         \
    const int one = 1;                                                                             \
    scipy_##s##geev_(&none, &jobv, &n, a, &lda, re, im, nullptr, &one, v, &ldv, work, &lwork,      \
                     &info, 1, 1);                                                                 \
    return info;                                                                                   \
  }                                                                                                \
  inline int gelsd(int m, int n, int nrhs, T* a, int lda, T* b, int ldb, T* s, T rcond, int* rank, \
                   T* work, int lwork, T*, int* iwork) {                                           \
    int info = 0;                                                                                  \
    scipy_##s##gelsd_(&m, &n, &nrhs, a, &lda, b, &ldb, s, &rcond, rank, work, &lwork, iwork,       \
                      &info);                                                                      \
    return info;                                                                                   \
  }                                                                                                \
  inline int gelss(int m, int n, int nrhs, T* a, int lda, T* b, int ldb, T* s, T rcond, int* rank, \
                   T* work, int lwork, T*) {                                                       \
    int info = 0;                                                                                  \
    scipy_##s##gelss_(&m, &n, &nrhs, a, &lda, b, &ldb, s, &rcond, rank, work, &lwork, &info);      \
    return info;                                                                                   \
  }                                                                                                \
  inline int gelsy(int m, int n, int nrhs, T* a, int lda, T* b, int ldb, int* jpvt, T rcond,       \
                   int* rank, T* work, int lwork, T*) {                                            \
    int info = 0;                                                                                  \
    scipy_##s##gelsy_(&m, &n, &nrhs, a, &lda, b, &ldb, jpvt, &rcond, rank, work, &lwork, &info);   \
    return info;                                                                                   \
  }
ADJOINT_LAPACK_REAL(float, s)
ADJOINT_LAPACK_REAL(double, d)
#undef ADJOINT_LAPACK_REAL

#define ADJOINT_LAPACK_COMPLEX(T, R, s)                                                            \
  extern "C" {                                                                                     \
  void scipy_##s##gesdd_(const char*, const int*, const int*, T*, const int*, R*, T*, const int*,  \
                         T*, const int*, T*, const int*, R*, int*, int*, size_t);                  \
  void scipy_##s##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, R*, T*, \
                         const int*, T*, const int*, T*, const int*, R*, int*, size_t, size_t);    \
  void scipy_##s##heevd_(const char*, const char*, const int*, T*, const int*, R*, T*, const int*, \
                         R*, const int*, int*, const int*, int*, size_t, size_t);                  \
  void scipy_##s##hetrf_(const char*, const int*, T*, const int*, int*, T*, const int*, int*,      \
                         size_t);                                                                  \
  void scipy_##s##hetrs_(const char*, const int*, const int*, const T*, const int*, const int*,    \
                         T*, const int*, int*, size_t);                                            \
  void scipy_##s##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*,  \
                        T*, const int*, T*, const int*, R*, int*, size_t, size_t);                 \
  void scipy_##s##gelsd_(const int*, const int*, const int*, T*, const int*, T*, const int*, R*,   \
                         const R*, int*, T*, const int*, R*, int*, int*);                          \
  void scipy_##s##gelss_(const int*, const int*, const int*, T*, const int*, T*, const int*, R*,   \
                         const R*, int*, T*, const int*, R*, int*);                                \
  void scipy_##s##gelsy_(const int*, const int*, const int*, T*, const int*, T*, const int*, int*, \
                         const R*, int*, T*, const int*, R*, int*);                                \
  }                                                                                                \
  inline int gesdd(char job, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* vt, int ldvt,    \
                   T* work, int lwork, R* rwork, int* iwork) {                                     \
    int info = 0;                                                                                  \
    scipy_##s##gesdd_(&job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &lwork, rwork, iwork,    \
                      &info, 1);                                                                   \
    return info;                                                                                   \
  }                                                                                                \
  inline int gesvd(char jobu, char jobv, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* vt,  \
                   int ldvt, T* work, int lwork, R* rwork) {                                       \
    int info = 0;                                                                                  \
    scipy_##s##gesvd_(&jobu, &jobv, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &lwork, rwork,   \
                      &info, 1, 1);                                                                \
    return info;                                                                                   \
  }                                                                                                \
  inline int heevd(char job, char uplo, int n, T* a, int lda, R* w, T* work, int lwork, R* rwork,  \
                   int lrwork, int* iwork, int liwork) {                                           \
    int info = 0;                                                                                  \
    scipy_##s##heevd_(&job, &uplo, &n, a, &lda, w, work, &lwork, rwork, &lrwork, iwork, &liwork,   \
                      &info, 1, 1);                                                                \
    return info;                                                                                   \
  }                                                                                                \
  inline int hetrf(char uplo, int n, T* a, int lda, int* pivots, T* work, int lwork) {             \
    int info = 0;                                                                                  \
    scipy_##s##hetrf_(&uplo, &n, a, &lda, pivots, work, &lwork, &info, 1);                         \
    return info;                                                                                   \
  }                                                                                                \
  inline int hetrs(char uplo, int n, int nrhs, const T* a, int lda, const int* pivots, T* b,       \
                   int ldb) {                                                                      \
    int info = 0;                                                                                  \
    scipy_##s##hetrs_(&uplo, &n, &nrhs, a, &lda, pivots, b, &ldb, &info, 1);                       \
    return info;                                                                                   \
  }                                                                                                \
  inline int geev(char jobv, int n, T* a, int lda, T* w, T* v, int ldv, T* work, int lwork,        \
                  R* rwork) {                                                                      \
    int info = 0;                                                                                  \
    const char none = 'N';                                                                         \
    const int one = 1;                                                                             \
    scipy_##s##geev_(&none, &jobv, &n, a, &lda, w, nullptr, &one, v, &ldv, work, &lwork, rwork,    \
                     &info, 1, 1);                                                                 \
    return info;                                                                                   \
  }                                                                                                \
  inline int gelsd(int m, int n, int nrhs, T* a, int lda, T* b, int ldb, R* s, R rcond, int* rank, \
                   T* work, int lwork, R* rwork, int* iwork) {                                     \
    int info = 0;                                                                                  \
    scipy_##s##gelsd_(&m, &n, &nrhs, a, &lda, b, &ldb, s, &rcond, rank, work, &lwork, rwork,       \
                      iwork, &info);                                                               \
    return info;                                                                                   \
  }                                                                                                \
  inline int gelss(int m, int n, int nrhs, T* a, int lda, T* b, int ldb, R* s, R rcond, int* rank, \
                   T* work, int lwork, R* rwork) {                                                 \
    int info = 0;                                                                                  \
    scipy_##s##gelss_(&m, &n, &nrhs, a, &lda, b, &ldb, s, &rcond, rank, work, &lwork, rwork,       \
                      &info);                                                                      \
    return info;                                                                                   \
  }                                                                                                \
  inline int gelsy(int m, int n, int nrhs, T* a, int lda, T* b, int ldb, int* jpvt, R rcond,       \
                   int* rank, T* work, int lwork, R* rwork) {                                      \
    int info = 0;                                                                                  \
    scipy_##s##gelsy_(&m, &n, &nrhs, a, &lda, b, &ldb, jpvt, &rcond, rank, work, &lwork, rwork,    \
                      &info);                                                                      \
    return info;                                                                                   \
  }
ADJOINT_LAPACK_COMPLEX(C64, float, c)
ADJOINT_LAPACK_COMPLEX(C128, double, z)
#undef ADJOINT_LAPACK_COMPLEX

// Triangular systems: b = op(a)^-1 b, or b op(a)^-1 from the right; b is m x n, column-major.
#define ADJOINT_TRSM(T, s, SCALAR)                                                            \
  inline void trsm(bool left, bool upper, char trans, bool unit, int m, int n, const T* a,    \
                   int lda, T* b, int ldb) {                                                  \
    const T one(1);                                                                           \
    scipy_cblas_##s##trsm(CblasColMajor, left ? CblasLeft : CblasRight,                       \
                          upper ? CblasUpper : CblasLower,                                    \
                          trans == 'N'   ? CblasNoTrans                                       \
                          : trans == 'T' ? CblasTrans                                         \
                                         : CblasConjTrans,                                    \
                          unit ? CblasUnit : CblasNonUnit, m, n, SCALAR one, a, lda, b, ldb); \
  }
ADJOINT_TRSM(float, s, )
ADJOINT_TRSM(double, d, )
ADJOINT_TRSM(C64, c, &)
ADJOINT_TRSM(C128, z, &)
#undef ADJOINT_TRSM

}  // namespace adjoint::lapack
