// The optimizers' loops, once per instruction set: the formulas for elements of arrays.
// Read next: kernels/optim/formulas.h.
#include "kernels/kernel.h"

// A product is rounded before it is added except where `fused` says otherwise: the compiler could
// choose either of two products, and not as the ops do.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

#include <utility>

#include "kernels/independent_loop.h"
#include "kernels/optim/formulas.h"

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

using optim::Arrays;
using optim::Step;

// The builtins rather than std:: ones: a library function is not inlined below the pragma above.
inline float root_of(float x) { return __builtin_sqrtf(x); }
inline double root_of(double x) { return __builtin_sqrt(x); }
inline float size_of(float x) { return __builtin_fabsf(x); }
inline double size_of(double x) { return __builtin_fabs(x); }

// x + y z, rounded once where the processor can, as in the ops of the same instruction set.
#if defined(__FMA__) || defined(__aarch64__)
inline float fused(float x, float y, float z) { return __builtin_fmaf(y, z, x); }
inline double fused(double x, double y, double z) { return __builtin_fma(y, z, x); }
#else
template <class T>
inline T fused(T x, T y, T z) {
  return x + y * z;
}
#endif

template <class T>
struct Element {
  using Number = T;
  using Scalar = T;
  static T scaled(T x, T s) { return s * x; }
  static T divided(T x, T s) { return x / s; }
  static T dividing(T s, T x) { return T(1) / x * s; }
  static T plus(T x, T s) { return x + s; }
  static T sum(T x, T y) { return x + y; }
  static T difference(T x, T y) { return x - y; }
  static T product(T x, T y) { return x * y; }
  static T quotient(T x, T y) { return x / y; }
  static T add_scaled(T x, T s, T y) { return fused(x, s, y); }
  static T add_product(T x, T y, T z) { return fused(x, y, z); }
  static T add_product(T x, T s, T y, T z) { return fused(x, s * y, z); }
  static T subtract_product(T x, T y, T z) { return fused(x, -y, z); }
  static T add_quotient(T x, T y, T z) { return x + y / z; }
  static T add_quotient(T x, T s, T y, T z) { return x + s * y / z; }
  static T root(T x) { return root_of(x); }
  static T absolute(T x) { return size_of(x); }
  static T sign(T x) { return T((x > 0) - (x < 0)); }
  // One of two lines, exact at both ends: see lerp in arithmetic.cpp.
  static T mixed(T x, T y, T mix) {
    const T span = y - x;
    return mix < T(0.5) ? fused(x, mix, span) : fused(y, -span, T(1) - mix);
  }
  // Written so that NaN stays, as it does in `maximum` and `clamp`.
  static T larger(T x, T y) { return x > y ? x : (x != x ? x : y); }
  static T clamped(T x, T low, T high) {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
  static T by_sign(T x, T negative, T positive) {
    return x > 0 ? positive : x < 0 ? negative : T(1);
  }
  static T unless_negative(T x, T y) { return x < 0 ? T(0) : y; }
};

template <class R, class T>
void typed(const Arrays& a, const Step& step, int64_t begin, int64_t end) {
  T numbers[R::kNumbers];
  for (int k = 0; k < R::kNumbers; ++k) numbers[k] = static_cast<T>(step.numbers[k]);
  T* at[R::kColumns];
  for (int k = 0; k < R::kColumns; ++k) at[k] = static_cast<T*>(a.columns[k]);
  optim::choose<R>(step.choice, [&]<unsigned Choice>() {
    ADJOINT_INDEPENDENT  // the columns are apart: bindings/optim.cpp looks
        for (int64_t i = begin; i < end; ++i) {
      T x[R::kColumns];
      for (int k = 0; k < R::kColumns; ++k) x[k] = R::reads(Choice, k) ? at[k][i] : T(0);
      R::template update<Element<T>, Choice>(x, numbers);
      for (int k = 0; k < R::kColumns; ++k) {
        if (R::writes(Choice, k)) at[k][i] = x[k];
      }
    }
  });
}

template <class R>
void loop(const Arrays& a, const Step& step, int64_t begin, int64_t end) {
  return a.dtype == DType::Float32 ? typed<R, float>(a, step, begin, end)
                                   : typed<R, double>(a, step, begin, end);
}

template <size_t... K>
constexpr auto all_loops(std::index_sequence<K...>) {
  struct Table {
    optim::Loop loops[sizeof...(K)];
  };
  return Table{{loop<std::tuple_element_t<K, optim::Rules>>...}};
}

constexpr auto kTable = all_loops(std::make_index_sequence<optim::kRules>());

}  // namespace

extern const optim::Loop* const kOptimLoops;
const optim::Loop* const kOptimLoops = kTable.loops;

}  // namespace adjoint::ADJOINT_ISA_TAG
