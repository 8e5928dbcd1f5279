// Loops of products of 16-bit floats: packing into panels, register tiles, and products with one
// vector. See kernels/products/panel_tiles.h for what they are handed.
#include "kernels/products/panel_tiles.h"

#include "kernels/independent_loop.h"
#include "kernels/isa/row_vectors.h"

#define UNROLL _Pragma("GCC unroll 32")

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

#if ADJOINT_SIMD == 512
constexpr int kRows = 8;
#define ADJOINT_PAIRS __attribute__((target("avx512bf16")))
#else
constexpr int kRows = 4;
#endif
constexpr int kVectors = kTileVectors, kLanes32 = kLanes<f32>, kColumns = kVectors * kLanes32;

// --- tiles ---------------------------------------------------------------------------------------
// V vectors of columns.
#define HALF_TILE(attribute, name, Unit, multiply_add)                                           \
  template <int V>                                                                               \
  attribute void name(const PanelTiles& j, const Unit* a, const Unit* b, float* c) {             \
    f32 sum[kRows][V];                                                                           \
    UNROLL for (int m = 0; m < kRows; ++m) UNROLL for (int v = 0; v < V; ++v) sum[m][v] = f32{}; \
    for (int64_t k = 0; k < j.units; ++k, a += kRows, b += V * kLanes32) {                       \
      f32 x[V];                                                                                  \
      UNROLL for (int v = 0; v < V; ++v) memcpy(&x[v], b + v * kLanes32, sizeof(f32));           \
      UNROLL for (int m = 0; m < kRows; ++m) {                                                   \
        float unit;                                                                              \
        memcpy(&unit, a + m, sizeof unit);                                                       \
        const f32 w = splat_bits(unit);                                                          \
        UNROLL for (int v = 0; v < V; ++v) sum[m][v] = multiply_add(sum[m][v], w, x[v]);         \
      }                                                                                          \
    }                                                                                            \
    UNROLL for (int m = 0; m < kRows; ++m) UNROLL for (int v = 0; v < V; ++v) {                  \
      float* to = c + m * j.ldc + v * kLanes32;                                                  \
      store<float, f32>(to, j.add ? load<float, f32>(to) + sum[m][v] : sum[m][v]);               \
    }                                                                                            \
  }

// The bits in all lanes, whatever they mean.
ADJOINT_INLINE f32 splat_bits(float unit) {
#if ADJOINT_SIMD == 512
  return (f32)_mm512_set1_ps(unit);
#elif ADJOINT_SIMD == 256
  return (f32)_mm256_set1_ps(unit);
#else
  int32_t word;
  memcpy(&word, &unit, sizeof word);
  return from_bits(i32{} + word);
#endif
}
ADJOINT_INLINE f32 product_added(f32 sum, f32 a, f32 b) { return sum + a * b; }

HALF_TILE(, float_tile, float, product_added)

template <class Unit, int V, void (*Tile)(const PanelTiles&, const Unit*, const Unit*, float*)>
void all_tiles(const PanelTiles& j) {
  const Unit *a = reinterpret_cast<const Unit*>(j.a), *b = reinterpret_cast<const Unit*>(j.b);
  for (int64_t v = 0; v < j.column_panels; ++v)
    for (int64_t m = 0; m < j.row_panels; ++m)
      Tile(j, a + m * kRows * j.units, b + v * V * kLanes32 * j.units,
           j.c + m * kRows * j.ldc + v * V * kLanes32);
}

void float_tiles(char* const* p, int64_t) {
  const PanelTiles& j = *reinterpret_cast<const PanelTiles*>(p[0]);
  if (j.vectors == 1) return all_tiles<float, 1, float_tile<1>>(j);
  if (j.vectors == 2) return all_tiles<float, 2, float_tile<2>>(j);
  all_tiles<float, 3, float_tile<3>>(j);
}

const LoopRegistrar tiles_f32{kIsa, "panel_tiles", 1, Result::Same, DType::Float32, float_tiles};

#if ADJOINT_SIMD == 512
ADJOINT_PAIRS inline f32 pairs_added(f32 sum, f32 a, f32 b) {
  return (f32)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
HALF_TILE(ADJOINT_PAIRS, pair_tile, uint32_t, pairs_added)

void pair_tiles(char* const* p, int64_t) {
  all_tiles<uint32_t, kVectors, pair_tile<kVectors>>(*reinterpret_cast<const PanelTiles*>(p[0]));
}

const LoopRegistrar tiles_pairs{kIsa, "panel_tiles", 1, Result::Same, DType::BFloat16, pair_tiles};
#endif

// --- packing -------------------------------------------------------------------------------------
ADJOINT_INLINE float widened(float v) { return v; }
ADJOINT_INLINE float widened(bfloat16_t v) {
  const uint32_t word = uint32_t{v.bits} << 16;
  float f;
  memcpy(&f, &word, sizeof f);
  return f;
}
ADJOINT_INLINE float widened(half_t v) {
#if defined(__F16C__)
  return _cvtsh_ss(v.bits);
#else
  // By the exponent of float32: a product with 2^112 gets denormal numbers right as well.
  const uint32_t sign = uint32_t{v.bits & 0x8000u} << 16, rest = uint32_t{v.bits & 0x7fffu} << 13;
  float f;
  memcpy(&f, &rest, sizeof f);
  f *= 0x1p112f;
  uint32_t word;
  memcpy(&word, &f, sizeof word);
  if (rest >= 0x0f800000u) word |= 0x7f800000u;  // infinity and NaN
  word |= sign;
  memcpy(&f, &word, sizeof f);
  return f;
#endif
}

// A vector of them.
ADJOINT_INLINE f32 load_wide(const float* p) { return load<float, f32>(p); }
ADJOINT_INLINE f32 load_wide(const bfloat16_t* p) {
  typedef uint16_t u16 __attribute__((vector_size(kVectorBytes / 2)));
  u16 v;
  memcpy(&v, p, sizeof v);
  return from_bits((i32)(__builtin_convertvector(v, u32) << 16));
}
ADJOINT_INLINE f32 load_wide(const half_t* p) {
#if ADJOINT_SIMD == 512
  return (f32)_mm512_maskz_cvtph_ps(0xffff,
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif ADJOINT_SIMD == 256 && defined(__F16C__)
  return (f32)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  f32 v = {};
  for (int l = 0; l < kLanes32; ++l) v[l] = widened(p[l]);
  return v;
#endif
}

// One element of each line.
template <class T>
ADJOINT_INLINE void pack_step(const PanelPack& j, const T* at, float* to) {
  int64_t i = 0;
  if (j.line_stride == 1)
    for (; i + kLanes32 <= j.lines; i += kLanes32) store<float, f32>(to + i, load_wide(at + i));
  for (; i < j.lines; ++i) to[i] = widened(at[i * j.line_stride]);
  for (; i < j.width; ++i) to[i] = 0;
}

#if ADJOINT_SIMD == 512
// Vectors of eight lines, one after the other, to vectors of eight elements of each: three rounds of
// interleaving units of 1, 2 and 4 numbers.
ADJOINT_INLINE void across(const f32* x, float* to) {
  f32 y[8], z[8];
  UNROLL for (int i = 0; i < 8; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                   7, 23);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                       14, 30, 15, 31);
  }
  UNROLL for (int i = 0; i < 8; i += 4) UNROLL for (int h = 0; h < 2; ++h) {
    const f32 a = y[i + h], b = y[i + 2 + h];
    z[i + 2 * h] =
        __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
    z[i + 2 * h + 1] =
        __builtin_shufflevector(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
  }
  UNROLL for (int q = 0; q < 4; ++q) {
    const f32 a = z[q], b = z[4 + q];
    store<float, f32>(to + q * 32, __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5,
                                                           6, 7, 20, 21, 22, 23));
    store<float, f32>(to + q * 32 + 16, __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27,
                                                                12, 13, 14, 15, 28, 29, 30, 31));
  }
}
#endif

template <class T>
void panel_pack(char* const* p, int64_t) {
  const PanelPack& j = *reinterpret_cast<const PanelPack*>(p[0]);
  const T* from = reinterpret_cast<const T*>(j.from);
  float* to = reinterpret_cast<float*>(j.to);
  int64_t k = 0;
  if (j.step == 1 && j.line_stride != 1)  // lines lie along k: a vector of each, then across
    for (; k + kLanes32 <= j.count; k += kLanes32) {
#if ADJOINT_SIMD == 512
      if (j.lines == 8 && j.width == 8) {
        f32 x[8];
        UNROLL for (int i = 0; i < 8; ++i) x[i] = load_wide(from + i * j.line_stride + k);
        across(x, to);
        to += 8 * kLanes32;
        continue;
      }
#endif
      float lines[kColumns * kLanes32];
      for (int64_t i = 0; i < j.lines; ++i)
        store<float, f32>(lines + i * kLanes32, load_wide(from + i * j.line_stride + k));
      for (int l = 0; l < kLanes32; ++l, to += j.width) {
        for (int64_t i = 0; i < j.lines; ++i) to[i] = lines[i * kLanes32 + l];
        for (int64_t i = j.lines; i < j.width; ++i) to[i] = 0;
      }
    }
  for (; k < j.count; ++k, to += j.width) pack_step(j, from + k * j.step, to);
}

// Elements k and k + 1 of a line side by side, the latter zero where there is none.
void half_pairs(char* const* p, int64_t) {
  const PanelPack& j = *reinterpret_cast<const PanelPack*>(p[0]);
  const uint16_t* from = reinterpret_cast<const uint16_t*>(j.from);
  uint32_t* to = reinterpret_cast<uint32_t*>(j.to);
  for (int64_t k = 0; k < j.count; k += 2, to += j.width) {
    const uint16_t* at = from + k * j.step;
    const bool whole = k + 1 < j.count;
    if (!whole) {
      for (int64_t i = 0; i < j.lines; ++i) to[i] = at[i * j.line_stride];
    } else if (j.line_stride == 1) {
      const uint16_t* next = at + j.step;
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < j.lines; ++i) to[i] = at[i] | uint32_t{next[i]} << 16;
    } else if (j.step == 1) {
      for (int64_t i = 0; i < j.lines; ++i) memcpy(to + i, at + i * j.line_stride, 4);
    } else {
      for (int64_t i = 0; i < j.lines; ++i)
        to[i] = at[i * j.line_stride] | uint32_t{at[i * j.line_stride + j.step]} << 16;
    }
    for (int64_t i = j.lines; i < j.width; ++i) to[i] = 0;
  }
}

// --- products with a vector ----------------------------------------------------------------------
// Four sums in turn, so that each waits for its own only.
template <class T>
void half_dots(char* const* p, int64_t) {
  const HalfVector& j = *reinterpret_cast<const HalfVector*>(p[0]);
  const auto x = [&](int64_t k) { return load<float, f32>(j.x + k); };
  for (int64_t i = 0; i < j.count; ++i) {
    const T* row = reinterpret_cast<const T*>(j.rows) + i * j.stride;
    f32 a = {}, b = {}, c = {}, d = {};
    int64_t k = 0;
    constexpr int L = kLanes32;
    for (; k + 4 * L <= j.length; k += 4 * L) {
      a += load_wide(row + k) * x(k);
      b += load_wide(row + k + L) * x(k + L);
      c += load_wide(row + k + 2 * L) * x(k + 2 * L);
      d += load_wide(row + k + 3 * L) * x(k + 3 * L);
    }
    for (; k + L <= j.length; k += L) a += load_wide(row + k) * x(k);
    float rest = 0;
    for (; k < j.length; ++k) rest += widened(row[k]) * j.x[k];
    j.out[i] = sum_of_lanes((a + b) + (c + d)) + rest;
  }
}

// Four rows at a time, to load and store the sums less often; in the order of rows all the same.
template <class T>
void half_axpy(char* const* p, int64_t) {
  const HalfVector& j = *reinterpret_cast<const HalfVector*>(p[0]);
  float* out = j.out;
  for (int64_t k = 0; k < j.count; k += 4) {
    const int64_t some = j.count - k < 4 ? j.count - k : 4;
    const T* row[4];
    float w[4] = {};
    for (int64_t r = 0; r < 4; ++r)
      row[r] = reinterpret_cast<const T*>(j.rows) + (k + (r < some ? r : 0)) * j.stride;
    for (int64_t r = 0; r < some; ++r) w[r] = j.x[k + r];
    int64_t i = 0;
    if (some == 4)
      for (; i + kLanes32 <= j.length; i += kLanes32) {
        f32 sum = load<float, f32>(out + i);
        UNROLL for (int r = 0; r < 4; ++r) sum += splat<f32>(w[r]) * load_wide(row[r] + i);
        store<float, f32>(out + i, sum);
      }
    for (; i < j.length; ++i)
      for (int64_t r = 0; r < some; ++r) out[i] += w[r] * widened(row[r][i]);
  }
}

#define HALF_KERNEL(name)                                                                     \
  const LoopRegistrar name##_f16{kIsa, #name, 1, Result::Same, DType::Float16, name<half_t>}; \
  const LoopRegistrar name##_bf16{kIsa, #name, 1, Result::Same, DType::BFloat16, name<bfloat16_t>};

HALF_KERNEL(panel_pack)
const LoopRegistrar panel_pack_f32{kIsa,         "panel_pack",   1,
                                   Result::Same, DType::Float32, panel_pack<float>};
HALF_KERNEL(half_dots)
HALF_KERNEL(half_axpy)
const LoopRegistrar pairs_bf16{kIsa, "half_pairs", 1, Result::Same, DType::BFloat16, half_pairs};

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
