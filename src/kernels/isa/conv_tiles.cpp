// The register tiles of convolutions: M channels times V vectors of positions. See kernels/windows/conv_tiles.h for
// what they are handed.
//
// The compiler keeps an array of vectors in registers only if every index is a constant after
// unrolling: one rolled loop, or a lane by a variable anywhere in the function, and the whole tile
// lives in memory at a third of the speed. Hence sums leave through memory.
#include "kernels/windows/conv_tiles.h"
#include "kernels/isa/mask_lanes.h"

#define UNROLL _Pragma("GCC unroll 32")

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

#if ADJOINT_SIMD == 512
constexpr int kRows = 8;
#else
constexpr int kRows = 4;
#endif
// More vectors than three make the loads of x the bound, but for one channel, which has few sums.
constexpr int most_vectors(int rows) { return rows == 1 ? 8 : 3; }

template <class T>
ADJOINT_INLINE void put(T* to, const T* from, uint32_t mask, int64_t step) {
  using V = VecOf<T>;
  if (step != 1)
    for (int l = 0; l < __builtin_popcount(mask); ++l) to[l * step] = from[l];
  else if (mask == kAllLanes<V>)
    store<T, V>(to, load<T, V>(from));
  else
    store_lanes<T>(to, from, mask);
}

#if ADJOINT_SIMD == 512
ADJOINT_INLINE void put(half_t* to, const float* from, uint32_t mask, int64_t step) {
  const auto lanes = static_cast<__mmask16>(mask);
  const __m512 together =
      step == 1 ? _mm512_maskz_compress_ps(lanes, _mm512_loadu_ps(from)) : _mm512_loadu_ps(from);
  const __m256i halves = _mm512_maskz_cvtps_ph(0xffff, together, _MM_FROUND_TO_NEAREST_INT);
  const int count = __builtin_popcount(mask);
  if (step == 1)
    return _mm256_mask_storeu_epi16(to, static_cast<__mmask16>((1u << count) - 1), halves);
  half_t each[16];
  memcpy(each, &halves, sizeof each);
  for (int l = 0; l < count; ++l) to[l * step] = each[l];
}
#endif

template <class T, class Out>
ADJOINT_INLINE void put_all(const ConvSums& s, int rows, int vectors, const T* sums,
                            const VectorPlace* places, Out* out) {
  for (int m = 0; m < rows; ++m, out += s.out_plane)
    for (int v = 0; v < vectors; ++v)
      put(out + places[v].out, sums + (m * vectors + v) * kLanes<VecOf<T>>, places[v].mask,
          s.out_step);
}

template <class T>
__attribute__((noinline)) void finish(const ConvSums& s, int rows, int vectors, const T* sums,
                                      const VectorPlace* places, char* out, int64_t stored) {
  if (stored < rows) rows = static_cast<int>(stored);
#if ADJOINT_SIMD == 512
  if constexpr (sizeof(T) == 4)
    if (s.halves) return put_all(s, rows, vectors, sums, places, reinterpret_cast<half_t*>(out));
#endif
  put_all(s, rows, vectors, sums, places, reinterpret_cast<T*>(out));
}

// With Pairs, numbers are pairs of bfloat16, whose two products are added. By name, since the compiler
// would want the whole function built for processors that have the instruction.
template <bool Pairs, class V>
ADJOINT_INLINE void add_product(V& sum, V a, V b) {
#if ADJOINT_SIMD == 512
  if constexpr (Pairs)
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  else
#endif
    sum += a * b;
}

// A sum runs over k in order, whatever the tile: the result depends neither on how positions are
// shared out nor, where there is a fused product, on the width of vectors.
template <class T, bool Pairs, int M, int N>
void tile(const ConvSums& s, const T* w, const T* bias, const VectorPlace* places, char* out,
          int64_t stored) {
  using V = VecOf<T>;
  const T* base[N];
  for (int v = 0; v < N; ++v) base[v] = reinterpret_cast<const T*>(s.x) + places[v].in;
  V sum[M][N];
  UNROLL for (int m = 0; m < M; ++m) {
    const V start = splat<V>(bias && m < stored ? bias[m] : T(0));
    UNROLL for (int v = 0; v < N; ++v) sum[m][v] = start;
  }
  for (int64_t k = 0; k < s.length; ++k, w += M) {
    const int64_t at = s.offset[k];
    if constexpr (M < N) {
      V a[M];
      UNROLL for (int m = 0; m < M; ++m) a[m] = splat<V>(w[m]);
      UNROLL for (int v = 0; v < N; ++v) {
        const V b = load<T, V>(base[v] + at);
        UNROLL for (int m = 0; m < M; ++m) add_product<Pairs>(sum[m][v], a[m], b);
      }
    } else {
      V b[N];
      UNROLL for (int v = 0; v < N; ++v) b[v] = load<T, V>(base[v] + at);
      UNROLL for (int m = 0; m < M; ++m) {
        const V a = splat<V>(w[m]);
        UNROLL for (int v = 0; v < N; ++v) add_product<Pairs>(sum[m][v], a, b[v]);
      }
    }
  }
  alignas(64) T sums[M * N * kLanes<V>];
  UNROLL for (int m = 0; m < M; ++m) UNROLL for (int v = 0; v < N; ++v)
      store<T, V>(sums + (m * N + v) * kLanes<V>, sum[m][v]);
  finish(s, M, N, sums, places, out, stored);
}

template <class T>
using Tile = void (*)(const ConvSums&, const T*, const T*, const VectorPlace*, char*, int64_t);
template <class T>
using TilesOfRows = std::array<Tile<T>, 8>;

template <class T, bool Pairs, int M, int... N>
constexpr TilesOfRows<T> tiles_of(std::integer_sequence<int, N...>) {
  return {tile<T, Pairs, M, N + 1>...};
}
template <class T, bool Pairs, int M>
constexpr TilesOfRows<T> tiles_of() {
  return tiles_of<T, Pairs, M>(std::make_integer_sequence<int, most_vectors(M)>{});
}

// By rows and vectors. No tile has 5 or 7 rows: see tile_rows.
template <class T, bool Pairs>
constexpr std::array<TilesOfRows<T>, kRows> kTiles = {
    tiles_of<T, Pairs, 1>(), tiles_of<T, Pairs, 2>(), tiles_of<T, Pairs, 3>(),
    tiles_of<T, Pairs, 4>(),
#if ADJOINT_SIMD == 512
    TilesOfRows<T>{},        tiles_of<T, Pairs, 6>(), TilesOfRows<T>{},
    tiles_of<T, Pairs, 8>()
#endif
};

template <class T, bool Pairs = false>
void conv_sums(char* const* p, int64_t) {
  const ConvSums& s = *reinterpret_cast<const ConvSums*>(p[0]);
  const T* w = reinterpret_cast<const T*>(s.w);
  const T* bias = reinterpret_cast<const T*>(s.bias);
  char* out = s.out;
  const int64_t item = s.halves ? sizeof(half_t) : sizeof(T);
  for (int64_t o = 0; o < s.channels; o += kRows) {
    const int64_t left = s.channels - o;
    const int rows = tile_rows(left, kRows);
    const int64_t most = most_vectors(rows), tiles = (s.count - 1) / most + 1;
    int64_t begin = 0;
    for (int64_t t = 1; t <= tiles; ++t) {
      const int64_t end = s.count * t / tiles;
      kTiles<T, Pairs>[rows - 1][end - begin - 1](s, w, bias, s.places + begin, out, left);
      begin = end;
    }
    w += rows * s.length;
    out += kRows * s.out_plane * item;
    if (bias) bias += kRows;
  }
}

ROW_KERNEL(conv_sums, 1)
#if ADJOINT_SIMD == 512
const LoopRegistrar conv_pair_sums{kIsa,         "conv_sums",     1,
                                   Result::Same, DType::BFloat16, conv_sums<float, true>};
#endif

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
