// Between memory and tiles. Included by isa/fft.cpp, once per instruction set.
//
// A tile is the transpose of its lanes' memory, so three layouts have a quick way: lanes that follow
// one another in memory (complex: parts are taken apart; real: a vector is a vector), and elements
// that do (blocks of vectors are transposed in registers). All others go number by number.
#pragma once
#include <utility>

#include "kernels/fft/butterflies.h"
#include "kernels/fft/tile.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class V, size_t... K>
ADJOINT_INLINE V even_lanes(V a, V b, std::index_sequence<K...>) {
  return __builtin_shufflevector(a, b, (2 * K)...);
}
template <class V, size_t... K>
ADJOINT_INLINE V odd_lanes(V a, V b, std::index_sequence<K...>) {
  return __builtin_shufflevector(a, b, (2 * K + 1)...);
}
template <int Half, class V, size_t... K>
ADJOINT_INLINE V interleaved(V a, V b, std::index_sequence<K...>) {
  constexpr size_t n = sizeof...(K);
  return __builtin_shufflevector(a, b, (Half * n / 2 + K / 2 + (K % 2) * n)...);
}
// Blocks of S lanes of two rows change places across the diagonal.
template <size_t S, class V, size_t... K>
ADJOINT_INLINE void exchange(V& a, V& b, std::index_sequence<K...>) {
  constexpr size_t n = sizeof...(K);
  const V low = __builtin_shufflevector(a, b, ((K & S) ? n + K - S : K)...);
  b = __builtin_shufflevector(a, b, ((K & S) ? n + K : K + S)...);
  a = low;
}
template <size_t S, class V>
ADJOINT_INLINE void transpose(V* rows) {
  constexpr size_t n = kLanes<V>;
  if constexpr (S < n) {
#pragma GCC unroll 16
    for (size_t i = 0; i < n; ++i)
      if (!(i & S)) exchange<S>(rows[i], rows[i + S], std::make_index_sequence<n>());
    transpose<2 * S>(rows);
  }
}

// Whether all lanes are there and lie `gap` apart.
template <int N>
ADJOINT_INLINE bool follow(const int64_t* lane, int lanes, int64_t gap) {
  if (lanes < N) return false;
  for (int l = 1; l < N; ++l)
    if (lane[l] - lane[l - 1] != gap) return false;
  return true;
}

// --- reading -------------------------------------------------------------------------------------
template <class T, bool Swap>
static void read_by_number(const fft::Place<const T>& from, int lanes, T* tile, int64_t begin,
                           int64_t n) {
  constexpr int W = kLanes<VecOf<T>>;
  for (int l = 0; l < W; ++l) {
    const T* p = from.base + from.lane[l < lanes ? l : 0] + begin * from.step;
    T* re = tile + l + (Swap ? W : 0);
    T* im = tile + l + (Swap ? 0 : W);
    if (from.imag) {
      for (int64_t k = begin; k < n; ++k, p += from.step) {
        re[2 * W * k] = p[0];
        im[2 * W * k] = p[from.imag];
      }
    } else {
      for (int64_t k = begin; k < n; ++k, p += from.step) {
        re[2 * W * k] = p[0];
        im[2 * W * k] = 0;
      }
    }
  }
}

// Elements 0 .. n - 1 of each lane into cells.
template <class T, bool Swap>
static void read_cells(const fft::Place<const T>& from, int lanes, T* tile, int64_t n) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  const auto all = std::make_index_sequence<W>();
  const T* base = from.base + from.lane[0];
  auto put = [&](int64_t k, V re, V im) __attribute__((always_inline)) {
    set_cell<V>(tile, k, Swap ? Cell<V>{im, re} : Cell<V>{re, im});
  };
  if (from.imag == 1 && follow<W>(from.lane, lanes, 2)) {
    for (int64_t k = 0; k < n; ++k) {
      const V a = load<T, V>(base + k * from.step), b = load<T, V>(base + k * from.step + W);
      put(k, even_lanes(a, b, all), odd_lanes(a, b, all));
    }
    return;
  }
  if (from.imag != 1 && follow<W>(from.lane, lanes, 1)) {
    for (int64_t k = 0; k < n; ++k) {
      const T* p = base + k * from.step;
      put(k, load<T, V>(p), from.imag ? load<T, V>(p + from.imag) : V{});
    }
    return;
  }
  int64_t done = 0;
  if (from.imag == 1 && from.step == 2 && 2 * lanes >= W) {
    for (; 2 * done + W <= 2 * n; done += W / 2) {
      V rows[W];
#pragma GCC unroll 16
      for (int l = 0; l < W; ++l)
        rows[l] = load<T, V>(from.base + from.lane[l < lanes ? l : 0] + 2 * done);
      transpose<1>(rows);
#pragma GCC unroll 8
      for (int k = 0; k < W / 2; ++k) put(done + k, rows[2 * k], rows[2 * k + 1]);
    }
  }
  read_by_number<T, Swap>(from, lanes, tile, done, n);
}

// --- writing -------------------------------------------------------------------------------------
template <class T, bool Swap>
static void write_by_number(const fft::Place<T>& to, int lanes, const T* tile, int64_t begin,
                            int64_t n, T scale) {
  constexpr int W = kLanes<VecOf<T>>;
  for (int l = 0; l < lanes; ++l) {
    T* p = to.base + to.lane[l] + begin * to.step;
    const T* re = tile + l + (Swap ? W : 0);
    const T* im = tile + l + (Swap ? 0 : W);
    if (to.imag) {
      for (int64_t k = begin; k < n; ++k, p += to.step) {
        p[0] = re[2 * W * k] * scale;
        p[to.imag] = im[2 * W * k] * scale;
      }
    } else {
      for (int64_t k = begin; k < n; ++k, p += to.step) p[0] = re[2 * W * k] * scale;
    }
  }
}

template <class T, bool Swap>
static void write_cells(const fft::Place<T>& to, int lanes, const T* tile, int64_t n, T scale) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  const auto all = std::make_index_sequence<W>();
  T* base = to.base + to.lane[0];
  auto get = [&](int64_t k) __attribute__((always_inline)) {
    const Cell<V> c = cell_at<V>(tile, k);
    return Swap ? Cell<V>{c.im * scale, c.re * scale} : Cell<V>{c.re * scale, c.im * scale};
  };
  if (to.imag == 1 && follow<W>(to.lane, lanes, 2)) {
    for (int64_t k = 0; k < n; ++k) {
      const Cell<V> c = get(k);
      store<T, V>(base + k * to.step, interleaved<0>(c.re, c.im, all));
      store<T, V>(base + k * to.step + W, interleaved<1>(c.re, c.im, all));
    }
    return;
  }
  if (to.imag != 1 && follow<W>(to.lane, lanes, 1)) {
    for (int64_t k = 0; k < n; ++k) {
      const Cell<V> c = get(k);
      T* p = base + k * to.step;
      store<T, V>(p, c.re);
      if (to.imag) store<T, V>(p + to.imag, c.im);
    }
    return;
  }
  int64_t done = 0;
  if (to.imag == 1 && to.step == 2 && 2 * lanes >= W) {
    for (; 2 * done + W <= 2 * n; done += W / 2) {
      V rows[W];
#pragma GCC unroll 8
      for (int k = 0; k < W / 2; ++k) {
        const Cell<V> c = get(done + k);
        rows[2 * k] = c.re;
        rows[2 * k + 1] = c.im;
      }
      transpose<1>(rows);
      if (lanes == W) {
#pragma GCC unroll 16
        for (int l = 0; l < W; ++l) store<T, V>(to.base + to.lane[l] + 2 * done, rows[l]);
      } else {
        for (int l = 0; l < lanes; ++l) store<T, V>(to.base + to.lane[l] + 2 * done, rows[l]);
      }
    }
  }
  write_by_number<T, Swap>(to, lanes, tile, done, n, scale);
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
