// The short transforms that passes are made of, on cells: a vector of real parts and a vector of
// imaginary parts, one lane per transform. Included by kernels/isa/fft.cpp, once per instruction set.
#pragma once
#include "kernels/fft/factors.h"
#include "kernels/fft/plan.h"
#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class V>
struct ComplexCell {
  V re, im;
};

template <class V>
ADJOINT_INLINE ComplexCell<V> operator+(ComplexCell<V> a, ComplexCell<V> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class V>
ADJOINT_INLINE ComplexCell<V> operator-(ComplexCell<V> a, ComplexCell<V> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class V>
ADJOINT_INLINE ComplexCell<V> operator*(ComplexCell<V> a, ComplexCell<V> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// By -i, a quarter of a turn.
template <class V>
ADJOINT_INLINE ComplexCell<V> turned(ComplexCell<V> a) {
  return {a.im, -a.re};
}
template <class V>
ADJOINT_INLINE ComplexCell<V> swapped(ComplexCell<V> a) {
  return {a.im, a.re};
}

// Tiles hold cells one behind the other, aligned.
template <class V>
ADJOINT_INLINE ComplexCell<V> cell_at(const ScalarOf<V>* tile, int64_t k) {
  const V* v = reinterpret_cast<const V*>(tile) + 2 * k;
  return {v[0], v[1]};
}
template <class V>
ADJOINT_INLINE void set_cell(ScalarOf<V>* tile, int64_t k, ComplexCell<V> c) {
  V* v = reinterpret_cast<V*>(tile) + 2 * k;
  v[0] = c.re;
  v[1] = c.im;
}
// The same number in all lanes.
template <class V>
ADJOINT_INLINE ComplexCell<V> number_at(const ScalarOf<V>* numbers, int64_t k) {
  return {splat<V>(numbers[2 * k]), splat<V>(numbers[2 * k + 1])};
}

template <class V>
ADJOINT_INLINE void four(ComplexCell<V>& a, ComplexCell<V>& b, ComplexCell<V>& c,
                         ComplexCell<V>& d) {
  const ComplexCell<V> even = a + c, odd = b + d, across = a - c, turn = turned(b - d);
  a = even + odd;
  b = across + turn;
  c = even - odd;
  d = across - turn;
}

// cos and sin of 2 pi j k / R at [k - 1][j - 1], for j, k = 1 .. (R - 1) / 2.
template <int R>
struct Circle;
template <>
struct Circle<3> {
  static constexpr double cos[1][1] = {{-0.5}};
  static constexpr double sin[1][1] = {{0.86602540378443864676}};
};
template <>
struct Circle<5> {
  static constexpr double c1 = 0.30901699437494742410, c2 = -0.80901699437494742410;
  static constexpr double s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;
  static constexpr double cos[2][2] = {{c1, c2}, {c2, c1}};
  static constexpr double sin[2][2] = {{s1, s2}, {s2, -s1}};
};
template <>
struct Circle<7> {
  static constexpr double c1 = 0.62348980185873353053, c2 = -0.22252093395631440429,
                          c3 = -0.90096886790241912624;
  static constexpr double s1 = 0.78183148246802980871, s2 = 0.97492791218182360702,
                          s3 = 0.43388373911755812048;
  static constexpr double cos[3][3] = {{c1, c2, c3}, {c2, c3, c1}, {c3, c1, c2}};
  static constexpr double sin[3][3] = {{s1, s2, s3}, {s2, -s3, -s1}, {s3, -s1, s2}};
};

// Elements j and R - j share their cosines and sines but for a sign.
template <int R, class V>
ADJOINT_INLINE void odd_transform(ComplexCell<V>* x) {
  using S = ScalarOf<V>;
  constexpr int H = (R - 1) / 2;
  ComplexCell<V> sum[H], rest[H], first = x[0], total = x[0];
#pragma GCC unroll 8
  for (int j = 0; j < H; ++j) {
    sum[j] = x[j + 1] + x[R - 1 - j];
    rest[j] = x[j + 1] - x[R - 1 - j];
    total = total + sum[j];
  }
  x[0] = total;
#pragma GCC unroll 8
  for (int k = 0; k < H; ++k) {
    ComplexCell<V> a = first, b{};
#pragma GCC unroll 8
    for (int j = 0; j < H; ++j) {
      const S c = static_cast<S>(Circle<R>::cos[k][j]), s = static_cast<S>(Circle<R>::sin[k][j]);
      a.re += sum[j].re * c;
      a.im += sum[j].im * c;
      b.re += rest[j].re * s;
      b.im += rest[j].im * s;
    }
    x[k + 1] = {a.re + b.im, a.im - b.re};
    x[R - 1 - k] = {a.re - b.im, a.im + b.re};
  }
}

// The transform of R cells in place, in natural order.
template <int R, class V>
ADJOINT_INLINE void butterfly(ComplexCell<V>* x) {
  if constexpr (R == 2) {
    const ComplexCell<V> a = x[0];
    x[0] = a + x[1];
    x[1] = a - x[1];
  } else if constexpr (R == 4) {
    four(x[0], x[1], x[2], x[3]);
  } else if constexpr (R == 8) {
    constexpr ScalarOf<V> half = 0.70710678118654752440;
    four(x[0], x[2], x[4], x[6]);
    four(x[1], x[3], x[5], x[7]);
    // The odd ones times exp(-i pi / 4), -i, exp(-3 i pi / 4).
    const ComplexCell<V> odd[4] = {x[1],
                                   {(x[3].re + x[3].im) * half, (x[3].im - x[3].re) * half},
                                   turned(x[5]),
                                   {(x[7].im - x[7].re) * half, (x[7].re + x[7].im) * -half}};
    const ComplexCell<V> even[4] = {x[0], x[2], x[4], x[6]};
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      x[k] = even[k] + odd[k];
      x[k + 4] = even[k] - odd[k];
    }
  } else {
    odd_transform<R>(x);
  }
}

// R cells that lie `from_gap` apart, transformed, times roots of unity if there are any, to where
// cells lie `to_gap` apart.
template <int R, bool Roots, class V>
ADJOINT_INLINE void step(const ScalarOf<V>* x, int64_t from_gap, ScalarOf<V>* y, int64_t to_gap,
                         const ComplexCell<V>* roots) {
  ComplexCell<V> c[R];
#pragma GCC unroll 8
  for (int j = 0; j < R; ++j) c[j] = cell_at<V>(x, from_gap * j);
  butterfly<R>(c);
#pragma GCC unroll 8
  for (int k = 0; k < R; ++k)
    set_cell<V>(y, to_gap * k, Roots && k ? c[k] * roots[k - (k > 0)] : c[k]);
}

template <int R, class V>
struct RootsOf {
  ComplexCell<V> at[R - 1];
  inline __attribute__((always_inline)) explicit RootsOf(const ScalarOf<V>* numbers) {
#pragma GCC unroll 8
    for (int k = 0; k < R - 1; ++k) at[k] = number_at<V>(numbers, k);
  }
};

// One pass of Stockham's algorithm: y[q + s (R p + k)] = w^(p k) * sum over j of
// x[q + s (p + m j)] exp(-2 pi i j k / R), where w = exp(-2 pi i / (R m)).
template <class T, int R>
static void pass(const T* x, T* y, const fft::Stage& stage, const T* numbers) {
  using V = VecOf<T>;
  constexpr int64_t cell = 2 * kLanes<V>;
  const int64_t m = stage.m, s = stage.s;
  for (int64_t q = 0; q < s; ++q) step<R, false, V>(x + cell * q, s * m, y + cell * q, s, nullptr);
  const T* roots = numbers + stage.roots;
  for (int64_t p = 1; p < m; ++p, roots += 2 * (R - 1)) {
    const RootsOf<R, V> w(roots);
    const T* from = x + cell * s * p;
    T* to = y + cell * s * R * p;
    for (int64_t q = 0; q < s; ++q)
      step<R, true, V>(from + cell * q, s * m, to + cell * q, s, w.at);
  }
}

// The same for any odd radix, with cosines and sines from memory.
template <class T>
static void pass_of_any(const T* x, T* y, const fft::Stage& stage, const T* numbers) {
  using V = VecOf<T>;
  const int64_t r = stage.radix, h = (r - 1) / 2, m = stage.m, s = stage.s;
  const T* circle = numbers + stage.matrix;  // cos and sin at (k - 1) * h + j - 1
  alignas(64) T sums[fft::kMaxRadix * kLanes<V>], rests[fft::kMaxRadix * kLanes<V>];
  for (int64_t p = 0; p < m; ++p) {
    const T* roots = numbers + stage.roots + 2 * (r - 1) * (p - 1);
    for (int64_t q = 0; q < s; ++q) {
      const ComplexCell<V> first = cell_at<V>(x, q + s * p);
      ComplexCell<V> total = first;
      for (int64_t j = 1; j <= h; ++j) {
        const ComplexCell<V> a = cell_at<V>(x, q + s * (p + m * j));
        const ComplexCell<V> b = cell_at<V>(x, q + s * (p + m * (r - j)));
        set_cell<V>(sums, j - 1, a + b);
        set_cell<V>(rests, j - 1, a - b);
        total = total + (a + b);
      }
      T* to = y + 2 * kLanes<V> * (q + s * r * p);
      set_cell<V>(to, 0, total);
      for (int64_t k = 1; k <= h; ++k) {
        ComplexCell<V> a = first, b{};
        for (int64_t j = 0; j < h; ++j) {
          const ComplexCell<V> w = number_at<V>(circle, (k - 1) * h + j);
          const ComplexCell<V> sum = cell_at<V>(sums, j), rest = cell_at<V>(rests, j);
          a.re += sum.re * w.re;
          a.im += sum.im * w.re;
          b.re += rest.re * w.im;
          b.im += rest.im * w.im;
        }
        ComplexCell<V> low{a.re + b.im, a.im - b.re}, high{a.re - b.im, a.im + b.re};
        if (p) {
          low = low * number_at<V>(roots, k - 1);
          high = high * number_at<V>(roots, r - k - 1);
        }
        set_cell<V>(to, s * k, low);
        set_cell<V>(to, s * (r - k), high);
      }
    }
  }
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
