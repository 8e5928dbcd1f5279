// Loops of products of 16-bit floats and of float32: packing into panels, register tiles, and products
// with one vector. See kernels/products/panel_tiles.h for what they are handed.
#include "kernels/products/panel_tiles.h"

#include "kernels/independent_loop.h"
#include "kernels/isa/transposed.h"

#define UNROLL _Pragma("GCC unroll 32")

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

constexpr int kLanes32 = kLanes<f32>;
#if ADJOINT_SIMD == 512
constexpr int kRows = 8, kVectors = kTileVectors, kColumns = kVectors * kLanes32;
#define ADJOINT_PAIRS __attribute__((target("avx512bf16")))
#else
constexpr int kRows = 4;
#endif
constexpr int kLine = 64 / sizeof(float);

// --- tiles ---------------------------------------------------------------------------------------
ADJOINT_INLINE void store_halves([[maybe_unused]] half_t* to, [[maybe_unused]] f32 value,
                                 [[maybe_unused]] int lanes) {
#if ADJOINT_SIMD == 512
  const auto some = static_cast<__mmask16>((1u << lanes) - 1);
  const __m256i halves = _mm512_maskz_cvtps_ph(some, (__m512)value, _MM_FROUND_TO_NEAREST_INT);
  _mm256_mask_storeu_epi16(to, some, halves);
#endif
}

// V vectors of columns. `Apart`: rows of a lie along k; else they lie side by side. Rows of c are
// written from `first` to `end`.
template <int V, bool Apart>
void float_tile(const FloatTiles& j, const float* a, float* c, half_t* halves, int64_t first,
                int64_t end) {
  f32 sum[kRows][V];
  UNROLL for (int m = 0; m < kRows; ++m) UNROLL for (int v = 0; v < V; ++v) sum[m][v] = f32{};
  const float* b = j.b;
  const int64_t row = j.a_row, three = 3 * row, step = Apart ? 1 : j.a_step;
  for (int64_t k = 0; k < j.depth; ++k, a += step, b += V * kLanes32) {
    f32 x[V];
    UNROLL for (int v = 0; v < V; ++v) x[v] = load<float, f32>(b + v * kLanes32);
    if constexpr (!Apart) __builtin_prefetch(a + kLine);
    UNROLL for (int m = 0; m < kRows; ++m) {
      const f32 w = splat<f32>(Apart ? a[m / 3 * three + m % 3 * row] : a[m]);
      UNROLL for (int v = 0; v < V; ++v) sum[m][v] += w * x[v];
    }
  }
  const bool whole = j.last == kLanes32;
  const auto read = [&](const float* from, int v) {
    if (v < V - 1 || whole) return load<float, f32>(from + v * kLanes32);
    return load_part<float, f32>(from + v * kLanes32, j.last);
  };
  if (j.row) UNROLL for (int v = 0; v < V; ++v) {
      const f32 start = read(j.row, v);
      UNROLL for (int m = 0; m < kRows; ++m) sum[m][v] += start;
    }
  UNROLL for (int m = 0; m < kRows; ++m) {
    if (m < first || m >= end) continue;
    float* to = c + m * j.ldc;
    UNROLL for (int v = 0; v < V; ++v) {
      const f32 value = j.add ? read(to, v) + sum[m][v] : sum[m][v];
      const int lanes = v < V - 1 ? kLanes32 : j.last;
      if (halves)
        store_halves(halves + m * j.ldh + v * kLanes32, value, lanes);
      else if (v < V - 1 || whole)
        store<float, f32>(to + v * kLanes32, value);
      else
        store_part<float, f32>(to + v * kLanes32, value, j.last);
    }
  }
}

// Rows that do not fill a tile: a tile of the last rows that writes these only, if there are as many;
// packed ones are filled up.
template <int V, bool Apart>
void float_panel(const FloatTiles& j) {
  for (int64_t i = 0; i < j.rows; i += kRows) {
    const int64_t rest = j.rows - i, back = rest < kRows && !j.a_panel ? kRows - rest : 0;
    const float* a = j.a_panel ? j.a + i / kRows * j.a_panel : j.a + (i - back) * j.a_row;
    half_t* halves = j.halves ? j.halves + (i - back) * j.ldh : nullptr;
    float_tile<V, Apart>(j, a, j.c + (i - back) * j.ldc, halves, back, back + rest);
  }
}

template <bool Apart>
void float_panel(const FloatTiles& j) {
  if (j.vectors == 1) return float_panel<1, Apart>(j);
  if (j.vectors == 2) return float_panel<2, Apart>(j);
  float_panel<3, Apart>(j);
}

void float_tiles(char* const* p, int64_t) {
  const FloatTiles& j = *reinterpret_cast<const FloatTiles*>(p[0]);
  if (j.a_row == 1)
    float_panel<false>(j);
  else
    float_panel<true>(j);
}

const LoopRegistrar tiles_f32{kIsa, "float_tiles", 1, Result::Same, DType::Float32, float_tiles};

#if ADJOINT_SIMD == 512
ADJOINT_PAIRS void pair_tile(const PairTiles& j, const uint32_t* a, const uint32_t* b, float* c) {
  f32 sum[kRows][kVectors];
  UNROLL for (int m = 0; m < kRows; ++m) UNROLL for (int v = 0; v < kVectors; ++v) sum[m][v] =
      f32{};
  for (int64_t k = 0; k < j.units; ++k, a += kRows, b += kColumns) {
    f32 x[kVectors];
    UNROLL for (int v = 0; v < kVectors; ++v) memcpy(&x[v], b + v * kLanes32, sizeof(f32));
    UNROLL for (int m = 0; m < kRows; ++m) {
      float pair;  // the bits in all lanes, whatever they mean
      memcpy(&pair, a + m, sizeof pair);
      const __m512bh w = (__m512bh)_mm512_set1_ps(pair);
      UNROLL for (int v = 0; v < kVectors; ++v) sum[m][v] =
          (f32)_mm512_dpbf16_ps((__m512)sum[m][v], w, (__m512bh)x[v]);
    }
  }
  UNROLL for (int m = 0; m < kRows; ++m) UNROLL for (int v = 0; v < kVectors; ++v) {
    float* to = c + m * j.ldc + v * kLanes32;
    store<float, f32>(to, j.add ? load<float, f32>(to) + sum[m][v] : sum[m][v]);
  }
}

void pair_tiles(char* const* p, int64_t) {
  const PairTiles& j = *reinterpret_cast<const PairTiles*>(p[0]);
  const auto *a = reinterpret_cast<const uint32_t*>(j.a),
             *b = reinterpret_cast<const uint32_t*>(j.b);
  for (int64_t v = 0; v < j.column_panels; ++v)
    for (int64_t m = 0; m < j.row_panels; ++m)
      pair_tile(j, a + m * kRows * j.units, b + v * kColumns * j.units,
                j.c + m * kRows * j.ldc + v * kColumns);
}

const LoopRegistrar tiles_pairs{kIsa, "pair_tiles", 1, Result::Same, DType::BFloat16, pair_tiles};
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

constexpr int64_t kStepsAhead = 40;

// One element of each line.
template <class T>
ADJOINT_INLINE void pack_step(const PanelPack& j, const T* at, float* to) {
  int64_t i = 0;
  if (j.line_stride == 1)
    for (; i + kLanes32 <= j.lines; i += kLanes32) {
      __builtin_prefetch(at + kStepsAhead * j.step + i);  // pieces of rows that may lie far apart
      store<float, f32>(to + i, load_wide(at + i));
    }
  for (; i < j.lines; ++i) to[i] = widened(at[i * j.line_stride]);
  for (; i < j.width; ++i) to[i] = 0;
}

// Lines lie along k: a vector of each of `Lines`, then across, to `Lines` numbers of every step.
template <int Lines, class T>
ADJOINT_INLINE void pack_square(const T* from, int64_t line_stride, float* to, int64_t width) {
  f32 x[Lines];
  UNROLL for (int i = 0; i < Lines; ++i) x[i] = load_wide(from + i * line_stride);
  across<Lines>(x);
  constexpr int kSteps = kLanes32 / Lines;  // in one vector
  UNROLL for (int i = 0; i < Lines; ++i) {
    if (kSteps == 1 || width == Lines) {
      store<float, f32>(to + i * kSteps * width, x[i]);
    } else {
      float step[kLanes32];
      store<float, f32>(step, x[i]);
      for (int s = 0; s < kSteps; ++s)
        memcpy(to + (i * kSteps + s) * width, step + s * Lines, Lines * sizeof(float));
    }
  }
}

template <class T>
void panel_pack(char* const* p, int64_t) {
  const PanelPack& j = *reinterpret_cast<const PanelPack*>(p[0]);
  const T* from = reinterpret_cast<const T*>(j.from);
  float* to = reinterpret_cast<float*>(j.to);
  constexpr int W = kLanes32, kSome = W < 8 ? W : 8;
  int64_t k = 0;
  if (j.step == 1 && j.line_stride != 1)
    for (; k + W <= j.count; k += W, to += W * j.width) {
      int64_t i = 0;
      for (; i + W <= j.lines; i += W)
        pack_square<W>(from + i * j.line_stride + k, j.line_stride, to + i, j.width);
      if constexpr (kSome < W)
        if (i + kSome <= j.lines) {
          pack_square<kSome>(from + i * j.line_stride + k, j.line_stride, to + i, j.width);
          i += kSome;
        }
      for (; i < j.width; ++i)
        for (int l = 0; l < W; ++l)
          to[l * j.width + i] = i < j.lines ? widened(from[i * j.line_stride + k + l]) : 0.0f;
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
