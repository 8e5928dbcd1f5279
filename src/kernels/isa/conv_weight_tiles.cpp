// The register tiles that add up the gradient of a convolution's weight: M channels of g times N
// (channel, tap) pairs of x, over the same vectors; lanes are summed at the end. See kernels/windows/conv_tiles.h.
#include "kernels/windows/conv_tiles.h"
#include "kernels/isa/mask_lanes.h"

#define UNROLL _Pragma("GCC unroll 64")

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

#if ADJOINT_SIMD == 512
constexpr int kRows = 4;
constexpr int columns_of(int rows) { return rows == 1 ? 12 : 6; }
#else
constexpr int kRows = 2;
constexpr int columns_of(int rows) { return rows == 1 ? 9 : 5; }
#endif

// Of pairs of lanes that differ in `Bit`, the sums: those of a in lanes without the bit, those of b
// in the others.
template <int Bit, class V, size_t... I>
ADJOINT_INLINE V fold_pair(V a, V b, std::index_sequence<I...>) {
  constexpr int L = kLanes<V>;
  return __builtin_shufflevector(a, b, (int(I) & ~Bit) + (int(I) & Bit ? L : 0)...) +
         __builtin_shufflevector(a, b, (int(I) | Bit) + (int(I) & Bit ? L : 0)...);
}
// Lane i of the result is the sum of the lanes of v[i]: pairs of vectors are folded into one, half
// as many each time. A third of the work of separate sums.
template <int Bit, class V>
ADJOINT_INLINE V fold(const V* v) {
  constexpr auto all = std::make_index_sequence<kLanes<V>>();
  if constexpr (Bit > 1)
    return fold_pair<Bit>(fold<Bit / 2>(v), fold<Bit / 2>(v + Bit), all);
  else
    return fold_pair<Bit>(v[0], v[1], all);
}

// With Pairs, numbers are pairs of bfloat16: see conv_tiles.cpp.
template <bool Pairs, class V>
ADJOINT_INLINE void add_product(V& sum, V a, V b) {
#if ADJOINT_SIMD == 512
  if constexpr (Pairs)
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  else
#endif
    sum += a * b;
}

// g is [place][M][lanes]. x is loaded under the mask of the vector, so that what lies between rows
// does not enter: 0 * inf would be NaN.
template <class T, bool Pairs, int M, int N>
void tile(int64_t count, const VectorPlace* places, const T* g, const T* x, const int32_t* offset,
          T* dw, int64_t row, int64_t stored) {
  using V = VecOf<T>;
  constexpr int L = kLanes<V>;
  V sum[M][N];
  UNROLL for (int m = 0; m < M; ++m) UNROLL for (int t = 0; t < N; ++t) sum[m][t] = V{};
  const T* base[N];
  for (int t = 0; t < N; ++t) base[t] = x + offset[t];
  for (int64_t v = 0; v < count; ++v, g += M * L) {
    const int64_t in = places[v].in;
    const uint32_t mask = places[v].mask;
    V a[M];
    UNROLL for (int m = 0; m < M; ++m) a[m] = load<T, V>(g + m * L);
    UNROLL for (int t = 0; t < N; ++t) {
      const V b = load_where<T>(base[t] + in, mask);
      UNROLL for (int m = 0; m < M; ++m) add_product<Pairs>(sum[m][t], a[m], b);
    }
  }
  constexpr int kFolds = (M * N - 1) / L + 1;
  V all[kFolds * L];
  UNROLL for (int i = 0; i < kFolds * L; ++i) all[i] = i < M * N ? sum[i / N][i % N] : V{};
  T sums[kFolds * L];
  UNROLL for (int i = 0; i < kFolds; ++i) store<T, V>(sums + i * L, fold<L / 2>(all + i * L));
  for (int m = 0; m < M && m < stored; ++m)
    for (int t = 0; t < N; ++t) dw[m * row + t] += sums[m * N + t];
}

template <class T>
using Tile = void (*)(int64_t, const VectorPlace*, const T*, const T*, const int32_t*, T*, int64_t,
                      int64_t);
template <class T>
using TilesOfRows = std::array<Tile<T>, 12>;
template <class T, bool Pairs, int M, int... N>
constexpr TilesOfRows<T> tiles_of(std::integer_sequence<int, N...>) {
  return {tile<T, Pairs, M, N + 1>...};
}
template <class T, bool Pairs, int M>
constexpr TilesOfRows<T> tiles_of() {
  return tiles_of<T, Pairs, M>(std::make_integer_sequence<int, columns_of(M)>{});
}

template <class T>
void gather(const ConvProducts& s, const VectorPlace* places, int64_t count, int rows, T* to) {
  using V = VecOf<T>;
  for (int64_t v = 0; v < count; ++v) {
    const T* from = reinterpret_cast<const T*>(s.g) + places[v].out;
    for (int m = 0; m < rows; ++m, to += kLanes<V>, from += s.g_plane) {
      if (m >= s.channels)
        store<T, V>(to, V{});
      else if (places[v].mask == kAllLanes<V>)
        store<T, V>(to, load<T, V>(from));
      else
        load_lanes<T>(to, from, places[v].mask);
    }
  }
}

template <class T, bool Pairs = false>
void conv_products(char* const* p, int64_t) {
  const ConvProducts& s = *reinterpret_cast<const ConvProducts*>(p[0]);
  static constexpr TilesOfRows<T> kOne = tiles_of<T, Pairs, 1>(), kTwo = tiles_of<T, Pairs, 2>(),
                                  kMost = tiles_of<T, Pairs, kRows>();
  const int rows = s.channels > 2 ? kRows : static_cast<int>(s.channels);
  const TilesOfRows<T>& tiles = rows == 1 ? kOne : rows == 2 ? kTwo : kMost;
  const int64_t columns = columns_of(rows);
  T* gathered = reinterpret_cast<T*>(s.gathered);
  T* dw = reinterpret_cast<T*>(s.dw);
  for (int64_t first = 0; first < s.count; first += s.slice) {
    const int64_t some = s.slice < s.count - first ? s.slice : s.count - first;
    const VectorPlace* places = s.places + first;
    gather<T>(s, places, some, rows, gathered);
    for (int64_t t = 0; t < s.length; t += columns) {
      const int64_t these = columns < s.length - t ? columns : s.length - t;
      tiles[these - 1](some, places, gathered, reinterpret_cast<const T*>(s.x), s.offset + t,
                       dw + t, s.dw_row, s.channels);
    }
  }
}

ROW_KERNEL(conv_products, 1)
#if ADJOINT_SIMD == 512
const LoopRegistrar conv_pair_products{kIsa,         "conv_products", 1,
                                       Result::Same, DType::BFloat16, conv_products<float, true>};
#endif

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
