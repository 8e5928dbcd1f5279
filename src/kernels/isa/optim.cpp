// The optimizers' loops, once per instruction set: the formulas for elements of arrays.
// Read next: kernels/optim/formulas.h.
#include "kernels/kernel.h"

// The same bits on every instruction set: a product is rounded before it is added.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

#include "kernels/optim/formulas.h"

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

using optim::AdamOptions;
using optim::Arrays;
using optim::SgdOptions;

// The builtins rather than std::sqrt: a library function is not inlined below the pragma above.
inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

template <class T>
struct Element {
  using Number = T;
  using Scalar = T;
  static T scaled(T x, T s) { return s * x; }
  static T add_scaled(T x, T s, T y) { return x + s * y; }
  static T add_product(T x, T s, T y, T z) { return x + s * y * z; }
  static T add_quotient(T x, T s, T y, T z) { return x + s * y / z; }
  static T root_over(T x, T scale, T eps) { return root(x) / scale + eps; }
  // One of two lines, exact at both ends: see lerp in arithmetic.cpp.
  static T mixed(T x, T y, T mix, T unmixed) {
    const T span = y - x;
    return mix < T(0.5) ? x + mix * span : y - span * unmixed;
  }
  // Written so that NaN stays, as it does in `maximum`.
  static T larger(T x, T y) { return x > y ? x : (x != x ? x : y); }
};

template <class T>
void sgd_typed(const Arrays& a, const SgdOptions& o, int64_t begin, int64_t end) {
  T* __restrict p = static_cast<T*>(a.param);
  const T* __restrict g = static_cast<const T*>(a.grad);
  T* __restrict b = static_cast<T*>(a.first);
  const optim::SgdNumbers<T> numbers(o);
  optim::choose_sgd(o, b, [&]<bool Decay, optim::Velocity Kind, bool Nesterov>() {
    for (int64_t i = begin; i < end; ++i) {
      T param = p[i], velocity = Kind == optim::kRunning ? b[i] : T(0);
      optim::sgd_formula<Element<T>, Decay, Kind, Nesterov>(param, g[i], velocity, numbers);
      if constexpr (Kind != optim::kNone) b[i] = velocity;
      p[i] = param;
    }
  });
}

template <class T>
void adam_typed(const Arrays& a, const AdamOptions& o, int64_t begin, int64_t end) {
  T* __restrict p = static_cast<T*>(a.param);
  const T* __restrict g = static_cast<const T*>(a.grad);
  T* __restrict m = static_cast<T*>(a.first);
  T* __restrict v = static_cast<T*>(a.second);
  T* __restrict top = static_cast<T*>(a.largest);
  const optim::AdamNumbers<T> numbers(o, a.step);
  optim::choose_adam(o, top, [&]<bool Decay, bool Largest>() {
    for (int64_t i = begin; i < end; ++i) {
      T param = p[i], mean = m[i], square = v[i], largest = Largest ? top[i] : T(0);
      optim::adam_formula<Element<T>, Decay, Largest>(param, g[i], mean, square, largest, numbers);
      m[i] = mean;
      v[i] = square;
      if constexpr (Largest) top[i] = largest;
      p[i] = param;
    }
  });
}

void sgd(const Arrays& a, const SgdOptions& o, int64_t begin, int64_t end) {
  return a.dtype == DType::Float32 ? sgd_typed<float>(a, o, begin, end)
                                   : sgd_typed<double>(a, o, begin, end);
}

void adam(const Arrays& a, const AdamOptions& o, int64_t begin, int64_t end) {
  return a.dtype == DType::Float32 ? adam_typed<float>(a, o, begin, end)
                                   : adam_typed<double>(a, o, begin, end);
}

}  // namespace

extern const optim::Loops kOptimLoops;
const optim::Loops kOptimLoops = {sgd, adam};

}  // namespace adjoint::ADJOINT_ISA_TAG
