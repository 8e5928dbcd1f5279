// Between memory and tiles. Included by kernels/isa/fft.cpp, once per instruction set.
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
// How two rows are merged: lane K of the result is lane Pick::at(K, n) of both, one behind the other.
template <class Pick, class V, size_t... K>
ADJOINT_INLINE V merged(V a, V b, std::index_sequence<K...>) {
  return __builtin_shufflevector(a, b, Pick::at(K, sizeof...(K))...);
}
// Within blocks of sixteen bytes, groups of S lanes take turns: the first half of a block's groups
// or the second.
template <size_t Block, size_t S, bool Second>
struct Turns {
  static constexpr size_t at(size_t k, size_t n) {
    const size_t block = k / Block, group = k % Block / S, half = Second ? Block / 2 : 0;
    return block * Block + half + group / 2 * S + k % S + (group % 2 ? n : 0);
  }
};
// Blocks as a whole: two halves joined, or every other block.
template <bool Second>
struct Halves {
  static constexpr size_t at(size_t k, size_t n) {
    return k % (n / 2) + (Second ? n / 2 : 0) + (k < n / 2 ? 0 : n);
  }
};
template <size_t Block, bool Second>
struct Alternate {
  static constexpr size_t at(size_t k, size_t n) {
    const size_t block = k / Block * 2 + Second, blocks = n / Block;
    return block % blocks * Block + k % Block + (block < blocks ? 0 : n);
  }
};
template <class First, class Second, class V>
ADJOINT_INLINE void merge(V& a, V& b) {
  const auto all = std::make_index_sequence<kLanes<V>>();
  const V first = merged<First>(a, b, all);
  b = merged<Second>(a, b, all);
  a = first;
}

// Rows become columns: in blocks of sixteen bytes, and then the blocks; each step is one cheap
// instruction on x86.
template <class V>
ADJOINT_INLINE void transpose(V* rows) {
  constexpr int n = kLanes<V>, block = 16 / sizeof(ScalarOf<V>);
  V column[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; i += block) {
    if constexpr (block == 4) {
      V *a = rows + i, *c = column + i;
      V low[2] = {a[0], a[2]}, high[2] = {a[1], a[3]};
      for (int k = 0; k < 2; ++k) merge<Turns<4, 1, false>, Turns<4, 1, true>>(low[k], high[k]);
      c[0] = low[0], c[1] = low[1], c[2] = high[0], c[3] = high[1];
      merge<Turns<4, 2, false>, Turns<4, 2, true>>(c[0], c[1]);
      merge<Turns<4, 2, false>, Turns<4, 2, true>>(c[2], c[3]);
    } else {
      V *a = rows + i, *c = column + i;
      c[0] = a[0], c[1] = a[1];
      merge<Turns<2, 1, false>, Turns<2, 1, true>>(c[0], c[1]);
    }
  }
  // Now lane block q of column[block * g + j] holds, for rows block * g and on, column block * q + j.
  constexpr int blocks = n / block;
#pragma GCC unroll 16
  for (int j = 0; j < block; ++j) {
    if constexpr (blocks == 1) {
      rows[j] = column[j];
    } else if constexpr (blocks == 2) {
      V a = column[j], b = column[block + j];
      merge<Halves<false>, Halves<true>>(a, b);
      rows[j] = a, rows[block + j] = b;
    } else {
      V a = column[j], b = column[block + j], c = column[2 * block + j], d = column[3 * block + j];
      merge<Halves<false>, Halves<true>>(a, b);
      merge<Halves<false>, Halves<true>>(c, d);
      merge<Alternate<block, false>, Alternate<block, true>>(a, c);
      merge<Alternate<block, false>, Alternate<block, true>>(b, d);
      rows[j] = a, rows[block + j] = c, rows[2 * block + j] = b, rows[3 * block + j] = d;
    }
  }
}

// How the lanes of a tile lie in memory.
enum class Way : uint8_t {
  ComplexLanes,  // complex numbers of lanes that follow one another
  RealLanes,     // the same for real numbers, or for real and imaginary parts apart
  Elements,      // complex numbers that follow one another in each lane
  Numbers,       // otherwise
};
template <int W, class T>
ADJOINT_INLINE Way way_of(const fft::Place<T>& p, int lanes) {
  const int64_t gap = lanes == W ? p.lane[1] - p.lane[0] : 0;
  bool even = gap == (p.imag == 1 ? 2 : 1);
  for (int l = 2; l < W && even; ++l) even = p.lane[l] - p.lane[l - 1] == gap;
  if (even) return p.imag == 1 ? Way::ComplexLanes : Way::RealLanes;
  return p.imag == 1 && p.step == 2 && 2 * lanes >= W ? Way::Elements : Way::Numbers;
}

// Cells that one block of vectors holds, where elements follow one another.
template <class T>
inline constexpr int64_t kBlockCells = kLanes<VecOf<T>> / 2;

// --- reading -------------------------------------------------------------------------------------
template <class T>
struct Reader {
  using V = VecOf<T>;
  static constexpr int W = kLanes<V>;

  Reader(const fft::Place<const T>& p, int count, bool swap)
      : from(p), lanes(count), re(swap ? W : 0), im(W - re), way(way_of<W>(p, count)) {}

  // Elements begin .. end - 1 of each lane into cells 0 and on.
  void read(T* tile, int64_t begin, int64_t end) const {
    const auto all = std::make_index_sequence<W>();
    const T* p = from.base + from.lane[0] + begin * from.step;
    if (way == Way::ComplexLanes) {
      for (; begin < end; ++begin, p += from.step, tile += 2 * W) {
        const V a = load<T, V>(p), b = load<T, V>(p + W);
        store<T, V>(tile + re, even_lanes(a, b, all));
        store<T, V>(tile + im, odd_lanes(a, b, all));
      }
    } else if (way == Way::RealLanes) {
      for (; begin < end; ++begin, p += from.step, tile += 2 * W) {
        store<T, V>(tile + re, load<T, V>(p));
        store<T, V>(tile + im, from.imag ? load<T, V>(p + from.imag) : V{});
      }
    } else if (way == Way::Elements) {
      for (; begin + W / 2 <= end; begin += W / 2, tile += W * W) read_block(tile, begin);
    }
    if (begin < end) read_numbers(tile, begin, end);
  }

 private:
  fft::Place<const T> from;
  int lanes, re, im;  // of a cell: where its parts are
  Way way;

  inline __attribute__((always_inline)) void read_block(T* tile, int64_t begin) const {
    V rows[W];
    if (lanes == W) {
#pragma GCC unroll 16
      for (int l = 0; l < W; ++l) rows[l] = load<T, V>(from.base + from.lane[l] + 2 * begin);
    } else {
      for (int l = 0; l < W; ++l)
        rows[l] = load<T, V>(from.base + from.lane[l < lanes ? l : 0] + 2 * begin);
    }
    transpose(rows);
#pragma GCC unroll 8
    for (int k = 0; k < W / 2; ++k) {
      store<T, V>(tile + 2 * W * k + re, rows[2 * k]);
      store<T, V>(tile + 2 * W * k + im, rows[2 * k + 1]);
    }
  }

  __attribute__((noinline)) void read_numbers(T* tile, int64_t begin, int64_t end) const {
    for (int l = 0; l < W; ++l) {
      const T* p = from.base + from.lane[l < lanes ? l : 0] + begin * from.step;
      T* cell = tile + l;
      for (int64_t k = begin; k < end; ++k, p += from.step, cell += 2 * W) {
        cell[re] = p[0];
        cell[im] = from.imag ? p[from.imag] : 0;
      }
    }
  }
};

// --- writing -------------------------------------------------------------------------------------
template <class T>
struct Writer {
  using V = VecOf<T>;
  static constexpr int W = kLanes<V>;

  Writer(const fft::Place<T>& p, int count, bool swap, T factor)
      : to(p),
        lanes(count),
        re(swap ? W : 0),
        im(W - re),
        scale(factor),
        way(way_of<W>(p, count)) {}

  // Cells 0 and on into elements begin .. end - 1 of each lane.
  void write(const T* tile, int64_t begin, int64_t end) const {
    const auto all = std::make_index_sequence<W>();
    T* p = to.base + to.lane[0] + begin * to.step;
    if (way == Way::ComplexLanes) {
      for (; begin < end; ++begin, p += to.step, tile += 2 * W) {
        const V a = load<T, V>(tile + re) * scale, b = load<T, V>(tile + im) * scale;
        store<T, V>(p, interleaved<0>(a, b, all));
        store<T, V>(p + W, interleaved<1>(a, b, all));
      }
    } else if (way == Way::RealLanes) {
      for (; begin < end; ++begin, p += to.step, tile += 2 * W) {
        store<T, V>(p, load<T, V>(tile + re) * scale);
        if (to.imag) store<T, V>(p + to.imag, load<T, V>(tile + im) * scale);
      }
    } else if (way == Way::Elements) {
      for (; begin + W / 2 <= end; begin += W / 2, tile += W * W) write_block(tile, begin);
    }
    if (begin < end) write_numbers(tile, begin, end);
  }

 private:
  fft::Place<T> to;
  int lanes, re, im;
  T scale;
  Way way;

  inline __attribute__((always_inline)) void write_block(const T* tile, int64_t begin) const {
    V rows[W];
#pragma GCC unroll 8
    for (int k = 0; k < W / 2; ++k) {
      rows[2 * k] = load<T, V>(tile + 2 * W * k + re) * scale;
      rows[2 * k + 1] = load<T, V>(tile + 2 * W * k + im) * scale;
    }
    transpose(rows);
    if (lanes == W) {
#pragma GCC unroll 16
      for (int l = 0; l < W; ++l) store<T, V>(to.base + to.lane[l] + 2 * begin, rows[l]);
    } else {
      for (int l = 0; l < lanes; ++l) store<T, V>(to.base + to.lane[l] + 2 * begin, rows[l]);
    }
  }

  __attribute__((noinline)) void write_numbers(const T* tile, int64_t begin, int64_t end) const {
    for (int l = 0; l < lanes; ++l) {
      T* p = to.base + to.lane[l] + begin * to.step;
      const T* cell = tile + l;
      for (int64_t k = begin; k < end; ++k, p += to.step, cell += 2 * W) {
        p[0] = cell[re] * scale;
        if (to.imag) p[to.imag] = cell[im] * scale;
      }
    }
  }
};

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
