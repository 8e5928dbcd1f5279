// Products that do not go to BLAS: tiny ones, where the call costs more than the work, and those of
// integers, for which there is no BLAS.
#pragma once
#include <complex>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "kernels/products/gemm.h"
#include "kernels/element_type.h"

namespace adjoint {

// Calls f with a value of the C++ type that `dtype` computes in.
template <class F>
void with_compute_type(DType dtype, F f) {
  if (dtype == DType::Complex64) return f(complex64_t{});
  if (dtype == DType::Complex128) return f(complex128_t{});
  with_real_type(dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, bool>) {
      throw std::invalid_argument(
          "matrix products of bool are not defined; convert to uint8 or int64");
    } else {
      f(ComputeType<T>{});
    }
  });
}

inline constexpr int64_t kTiny = 4;  // up to 4 x 4 x 4; beyond that BLAS is faster

// Unsigned, so that overflow wraps, and at least 32 bits wide: narrower types would be promoted to
// int, whose overflow is undefined. The low bits are the same.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

// Integers wrap. std::complex's own product looks for NaN afterwards to repair infinities; BLAS
// does not, nor do we.
template <class T>
inline T times(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(Wrapping<T>(a) * Wrapping<T>(b));
  else
    return a * b;
}
template <class T>
inline std::complex<T> times(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <class T>
inline T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(Wrapping<T>(a) + Wrapping<T>(b));
  else
    return a + b;
}

// b is copied into rows of fixed length, so that the inner loops have constant bounds and
// vectorise; what stands in the surplus columns is never stored.
template <class T>
void tiny_product(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col,
                  const T* b, int64_t b_row, int64_t b_col, T* c, int64_t ldc, T alpha, T beta) {
  T rows[kTiny][kTiny] = {};
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = 0; j < n; ++j) rows[p][j] = b[p * b_row + j * b_col];
  for (int64_t i = 0; i < m; ++i) {
    T sum[kTiny] = {};
    for (int64_t p = 0; p < k; ++p) {
      const T x = a[i * a_row + p * a_col];
      for (int64_t j = 0; j < kTiny; ++j) sum[j] += times(x, rows[p][j]);
    }
    T* out = c + i * ldc;
    for (int64_t j = 0; j < n; ++j) {
      const T product = alpha == T(1) ? sum[j] : times(alpha, sum[j]);
      out[j] = beta == T(0) ? product : product + times(beta, out[j]);
    }
  }
}

// b has contiguous rows. Four rows of b at a time, to load and store c less often.
template <class T>
void integer_product(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col,
                     const T* b, int64_t ldb, T* c, int64_t ldc, T alpha, T beta) {
  using W = Wrapping<T>;
  for (int64_t i = 0; i < m; ++i) {
    T* __restrict out = c + i * ldc;
    const auto factor = [&](int64_t p) { return W(a[i * a_row + p * a_col]) * W(alpha); };
    for (int64_t j = 0; j < n; ++j) out[j] = beta ? T(W(out[j]) * W(beta)) : T(0);
    int64_t p = 0;
    for (; p + 4 <= k; p += 4) {
      const W x0 = factor(p), x1 = factor(p + 1), x2 = factor(p + 2), x3 = factor(p + 3);
      const T *b0 = b + p * ldb, *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb;
      for (int64_t j = 0; j < n; ++j)
        out[j] = T(W(out[j]) + x0 * W(b0[j]) + x1 * W(b1[j]) + x2 * W(b2[j]) + x3 * W(b3[j]));
    }
    for (; p < k; ++p) {
      const W x = factor(p);
      for (int64_t j = 0; j < n; ++j) out[j] = T(W(out[j]) + x * W(b[p * ldb + j]));
    }
  }
}

}  // namespace adjoint
