// Products of small matrices whose operands stay in the cache: C = A B, or C += A B.
//
// B has contiguous rows, which are loaded as vectors; elements of A are spread over a vector one by
// one, so A may have any strides: its transpose costs nothing. A tile of C stays in registers.
// Included only by files that are compiled once per instruction set.
#pragma once
#include "kernels/isa/row_vectors.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {

template <class T>
struct TileProduct {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_column;
  const T* b;
  int64_t b_row;
  T* c;
  int64_t c_row;
  bool add;  // to what C holds
};

// Rows and vectors of a tile: as many as registers hold, with room for B and for one element of A.
#if ADJOINT_SIMD == 512
inline constexpr int kTileHeight = 8;
#else
inline constexpr int kTileHeight = 4;
#endif

// One tile: M rows, N vectors, the last of which has `count` elements.
template <class T, int M, int N, bool Part>
ADJOINT_INLINE void product_tile(const TileProduct<T>& p, int64_t i, int64_t j, int64_t count) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  const T* a = p.a + i * p.a_row;
  const T* b = p.b + j;
  T* c = p.c + i * p.c_row + j;
  V sum[M][N] = {};
  for (int64_t k = 0; k < p.k; ++k) {
    V row[N];
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      if constexpr (Part)
        row[v] = load_part<T, V>(b + k * p.b_row + v * W, count);
      else
        row[v] = load<T, V>(b + k * p.b_row + v * W);
    }
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const V x = splat<V>(a[r * p.a_row + k * p.a_column]);
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) sum[r][v] += x * row[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      T* to = c + r * p.c_row + v * W;
      if constexpr (Part) {
        if (p.add) sum[r][v] += load_part<T, V>(to, count);
        store_part<T, V>(to, sum[r][v], count);
      } else {
        if (p.add) sum[r][v] += load<T, V>(to);
        store<T, V>(to, sum[r][v]);
      }
    }
  }
}

template <class T, int N, bool Part>
static void product_columns(const TileProduct<T>& p, int64_t j, int64_t count) {
  int64_t i = 0;
  for (; i + kTileHeight <= p.m; i += kTileHeight)
    product_tile<T, kTileHeight, N, Part>(p, i, j, count);
  if constexpr (kTileHeight > 4) {
    if (i + 4 <= p.m) product_tile<T, 4, N, Part>(p, i, j, count), i += 4;
  }
  if (i + 2 <= p.m) product_tile<T, 2, N, Part>(p, i, j, count), i += 2;
  if (i < p.m) product_tile<T, 1, N, Part>(p, i, j, count);
}

template <class T>
static void tile_product(const TileProduct<T>& p) {
  constexpr int W = kLanes<VecOf<T>>;
  int64_t j = 0;
  // Of four vectors two and two: a single one would use a third of the registers.
  for (; j + 3 * W <= p.n && j + 4 * W != p.n; j += 3 * W) product_columns<T, 3, false>(p, j, W);
  for (; j + 2 * W <= p.n; j += 2 * W) product_columns<T, 2, false>(p, j, W);
  for (; j + W <= p.n; j += W) product_columns<T, 1, false>(p, j, W);
  if (j < p.n) product_columns<T, 1, true>(p, j, p.n - j);
}

}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
