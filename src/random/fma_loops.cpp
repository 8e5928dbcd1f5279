// See fma_loops.h. The float32 logarithm, sine and cosine are the single precision ones of Moshier's
// Cephes, which PyTorch's vectorised normals use, in the same order of operations; where that order
// says `fma`, its compiler fuses. They are accurate to about 1e-7 on the arguments that occur here
// ((0, 1] and [0, 2 pi]) and are not meant for others.
//
// A product that is not written as fma must not be fused, hence the pragmas.
#include "random/fma_loops.h"

#include <bit>
#include <cmath>
#include <numbers>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("O3", "fp-contract=off")
#endif

#define ADJOINT_INLINE inline __attribute__((always_inline))

namespace adjoint::random {
namespace {

ADJOINT_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// log(x) of x in [2^-24, 1].
ADJOINT_INLINE float log_unit(float x) {
  const int32_t bits = std::bit_cast<int32_t>(x);
  float e = static_cast<float>((bits >> 23) - 126);
  const float m =
      std::bit_cast<float>((bits & 0x007fffff) | 0x3f000000);  // x = m 2^e, m in [1/2, 1)
  const bool low = m < 0.707106781186547524f;
  e -= low ? 1.0f : 0.0f;
  const float t = (m - 1.0f) + (low ? m : 0.0f);
  const float z = t * t;
  float y = 7.0376836292e-2f;
  y = fma(y, t, -1.1514610310e-1f);
  y = fma(y, t, 1.1676998740e-1f);
  y = fma(y, t, -1.2420140846e-1f);
  y = fma(y, t, 1.4249322787e-1f);
  y = fma(y, t, -1.6668057665e-1f);
  y = fma(y, t, 2.0000714765e-1f);
  y = fma(y, t, -2.4999993993e-1f);
  y = fma(y, t, 3.3333331174e-1f);
  y = fma(y * t, z, e * -2.12194440e-4f);
  y = fma(-z, 0.5f, y);
  return fma(e, 0.693359375f, t + y);
}

// sin and cos of x in [0, 2 pi]: an even octant count is subtracted in three parts, then each
// polynomial serves the sine or the cosine according to the octant.
ADJOINT_INLINE void sincos_circle(float x, float& sine, float& cosine) {
  const int32_t octant = (static_cast<int32_t>(x * 1.27323954473516f) + 1) & ~1;
  const float y = static_cast<float>(octant);
  x = fma(y, -0.78515625f, x);
  x = fma(y, -2.4187564849853515625e-4f, x);
  x = fma(y, -3.77489497744594108e-8f, x);
  const float z = x * x;

  float c = fma(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  c = fma(c, z, 4.166664568298827e-2f);
  c = fma(c * z, z, -(z * 0.5f)) + 1.0f;

  float s = fma(-1.9515295891e-4f, z, 8.3321608736e-3f);
  s = fma(s, z, -1.6666654611e-1f);
  s = fma(s * z, x, x);

  const bool plain = (octant & 2) == 0;
  const float sine_abs = plain ? s : c, cosine_abs = plain ? c : s;
  const int32_t sine_sign = (octant & 4) << 29, cosine_sign = (~(octant - 2) & 4) << 29;
  // + 0 turns a -0 into +0, as the sum that selects the polynomial does there.
  sine = std::bit_cast<float>(std::bit_cast<int32_t>(sine_abs + 0.0f) ^ sine_sign);
  cosine = std::bit_cast<float>(std::bit_cast<int32_t>(cosine_abs + 0.0f) ^ cosine_sign);
}

ADJOINT_INLINE void box_muller_body(float* x, int64_t n, float mean, float std) {
  constexpr float two_pi = static_cast<float>(2 * std::numbers::pi);
  for (int64_t i = 0; i < n; i += 16) {
    float* radii = x + i;
    float* angles = x + i + 8;
    for (int j = 0; j < 8; ++j) {
      // 1 - u lies in (0, 1], where the logarithm exists.
      const float radius = __builtin_sqrtf(-2.0f * log_unit(1.0f - radii[j]));
      float sine, cosine;
      sincos_circle(two_pi * angles[j], sine, cosine);
      radii[j] = fma(radius * cosine, std, mean);
      angles[j] = fma(radius * sine, std, mean);
    }
  }
}

ADJOINT_INLINE void scale_shift_body(float* x, int64_t n, float scale, float shift) {
  for (int64_t i = 0; i < n; ++i) x[i] = __builtin_fmaf(x[i], scale, shift);
}
ADJOINT_INLINE void scale_shift_body(double* x, int64_t n, double scale, double shift) {
  for (int64_t i = 0; i < n; ++i) x[i] = __builtin_fma(x[i], scale, shift);
}

#if defined(__x86_64__) && defined(__GNUC__)
#define ADJOINT_WITH_FMA __attribute__((target("avx2,fma")))
ADJOINT_WITH_FMA void box_muller_fma(float* x, int64_t n, float mean, float std) {
  box_muller_body(x, n, mean, std);
}
ADJOINT_WITH_FMA void scale_shift_fma(float* x, int64_t n, float scale, float shift) {
  scale_shift_body(x, n, scale, shift);
}
ADJOINT_WITH_FMA void scale_shift_fma(double* x, int64_t n, double scale, double shift) {
  scale_shift_body(x, n, scale, shift);
}
bool has_fma() {
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return yes;
}
#else
constexpr bool has_fma() { return false; }
void box_muller_fma(float*, int64_t, float, float) {}
void scale_shift_fma(float*, int64_t, float, float) {}
void scale_shift_fma(double*, int64_t, double, double) {}
#endif

}  // namespace

void scale_shift(float* x, int64_t n, float scale, float shift) {
  has_fma() ? scale_shift_fma(x, n, scale, shift) : scale_shift_body(x, n, scale, shift);
}

void scale_shift(double* x, int64_t n, double scale, double shift) {
  has_fma() ? scale_shift_fma(x, n, scale, shift) : scale_shift_body(x, n, scale, shift);
}

void box_muller(float* x, int64_t n, float mean, float std) {
  has_fma() ? box_muller_fma(x, n, mean, std) : box_muller_body(x, n, mean, std);
}

// In double the functions are libm's: they dominate, so one build is enough.
void box_muller(double* x, int64_t n, double mean, double std) {
  for (int64_t i = 0; i < n; i += 16) {
    for (int64_t j = i; j < i + 8; ++j) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - x[j]));
      const double angle = 2 * std::numbers::pi * x[j + 8];
      x[j] = std::fma(radius * std::cos(angle), std, mean);
      x[j + 8] = std::fma(radius * std::sin(angle), std, mean);
    }
  }
}

}  // namespace adjoint::random
