// The contiguous conversion loops between any two dtypes, vectorised where the compiler can and by
// F16C where the instruction set has it.
// Read next: kernels/convert_element.h for one element, kernels/convert.cpp for who calls these.
#include "kernels/convert.h"
#include "kernels/elementwise/loops.h"
#include "kernels/convert_element.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

template <class T>
struct ElementOf {
  using type = T;
};
template <class T>
struct ElementOf<std::complex<T>> {
  using type = Pair<T>;
};
template <class T>
using element_t = typename ElementOf<T>::type;

template <class To>
struct Convert {
  template <class From>
  To operator()(From x) const {
    return convert<To>(x);
  }
};

#if defined(__AVX512BW__) && defined(__AVX512VL__)
// The same bits as half_to_float and float_to_half, sixteen at a time; rows are often short, so the last
// ones go together too.
void halves_to_floats(char* const* p, int64_t n) {
  auto* out = reinterpret_cast<float*>(p[0]);
  auto* in = reinterpret_cast<const half_t*>(p[1]);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    _mm512_storeu_ps(out + i, _mm512_maskz_cvtph_ps(0xffff, halves));
  }
  if (i < n) {
    const auto lanes = static_cast<__mmask16>((1u << (n - i)) - 1);
    const __m256i halves = _mm256_maskz_loadu_epi16(lanes, in + i);
    _mm512_mask_storeu_ps(out + i, lanes, _mm512_maskz_cvtph_ps(lanes, halves));
  }
}

void floats_to_halves(char* const* p, int64_t n) {
  constexpr int kRound = _MM_FROUND_TO_NEAREST_INT;
  auto* out = reinterpret_cast<half_t*>(p[0]);
  auto* in = reinterpret_cast<const float*>(p[1]);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i halves = _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(in + i), kRound);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), halves);
  }
  if (i < n) {
    const auto lanes = static_cast<__mmask16>((1u << (n - i)) - 1);
    const __m512 floats = _mm512_maskz_loadu_ps(lanes, in + i);
    _mm256_mask_storeu_epi16(out + i, lanes, _mm512_maskz_cvtps_ph(lanes, floats, kRound));
  }
}
#elif defined(__F16C__)
// Eight at a time.
void halves_to_floats(char* const* p, int64_t n) {
  auto* out = reinterpret_cast<float*>(p[0]);
  auto* in = reinterpret_cast<const half_t*>(p[1]);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  for (; i < n; ++i) out[i] = _cvtsh_ss(in[i].bits);
}

void floats_to_halves(char* const* p, int64_t n) {
  auto* out = reinterpret_cast<half_t*>(p[0]);
  auto* in = reinterpret_cast<const float*>(p[1]);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  for (; i < n; ++i) out[i].bits = _cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT);
}
#endif

template <class To, class From>
Loop conversion_loop() {
#ifdef __F16C__
  if constexpr (std::is_same_v<From, half_t> && std::is_same_v<To, float>) return halves_to_floats;
  if constexpr (std::is_same_v<From, float> && std::is_same_v<To, half_t>) return floats_to_halves;
#endif
  return loop<Convert<element_t<To>>, element_t<To>, element_t<From>>;
}

template <class To, class From>
void add() {
  if constexpr (!std::is_same_v<To, From>) {
    register_conversion(kThisIsa, dtype_of<To>::value, dtype_of<From>::value,
                        conversion_loop<To, From>());
  }
}

#define REALS bool, uint8_t, int8_t, int16_t, int32_t, int64_t, half_t, bfloat16_t, float, double
#define ALL REALS, complex64_t, complex128_t

template <class To, class... From>
void add_each() {
  (add<To, From>(), ...);
}
template <class... To>
void add_real() {
  (add_each<To, REALS>(), ...);
}
template <class... From>
void add_complex() {
  (add<complex64_t, From>(), ...);
  (add<complex128_t, From>(), ...);
  (add<From, complex64_t>(), ...);
  (add<From, complex128_t>(), ...);
}

template <class... Other>
void add_wide_unsigned() {
  (add<uint16_t, Other>(), ...), (add<Other, uint16_t>(), ...);
  (add<uint32_t, Other>(), ...), (add<Other, uint32_t>(), ...);
  (add<uint64_t, Other>(), ...), (add<Other, uint64_t>(), ...);
}

const bool registered = [] {
  add_real<REALS>();
  // Memory sets the pace of these at any instruction set: one build serves all.
  if constexpr (kThisIsa == Isa::Base) {
    add_complex<ALL>();
    add_wide_unsigned<ALL, uint16_t, uint32_t, uint64_t>();
  }
  return true;
}();

}  // namespace
}  // namespace adjoint::ADJOINT_ISA_TAG
