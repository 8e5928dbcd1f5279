// The optimizers' loops, once per instruction set. Every branch on an option is a template
// argument, so that what is left inside a loop is arithmetic the compiler turns into vectors. Read
// next: kernels/optim.h for the formulas.
#include "kernels/optim.h"

#include <cmath>

#include "kernels/kernel.h"

// The same bits on every instruction set: a product is rounded before it is added.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

namespace adjoint::ADJOINT_ISA_TAG {
namespace {

using optim::AdamOptions;
using optim::Arrays;
using optim::SgdOptions;

// The builtins rather than std::sqrt: a library function is not inlined below the pragma above.
inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

enum Velocity { kNone, kFirst, kRunning };

template <class T, bool Decay, int Kind, bool Nesterov>
void sgd_run(const Arrays& a, const SgdOptions& o, int64_t begin, int64_t end) {
  T* __restrict p = static_cast<T*>(a.param);
  const T* __restrict g = static_cast<const T*>(a.grad);
  T* __restrict b = static_cast<T*>(a.first);
  const T sign = o.maximize ? T(-1) : T(1), decay = T(o.weight_decay), momentum = T(o.momentum);
  const T fresh = T(1 - o.dampening), down = T(-o.lr);
  for (int64_t i = begin; i < end; ++i) {
    T grad = sign * g[i];
    if constexpr (Decay) grad = grad + decay * p[i];
    T move = grad;
    if constexpr (Kind != kNone) {
      const T velocity = Kind == kFirst ? grad : momentum * b[i] + fresh * grad;
      b[i] = velocity;
      move = Nesterov ? grad + momentum * velocity : velocity;
    }
    p[i] = p[i] + down * move;
  }
}

template <class T, bool Decay>
void sgd_choose(const Arrays& a, const SgdOptions& o, int64_t begin, int64_t end) {
  if (!a.first) return sgd_run<T, Decay, kNone, false>(a, o, begin, end);
  if (o.first) {
    return o.nesterov ? sgd_run<T, Decay, kFirst, true>(a, o, begin, end)
                      : sgd_run<T, Decay, kFirst, false>(a, o, begin, end);
  }
  return o.nesterov ? sgd_run<T, Decay, kRunning, true>(a, o, begin, end)
                    : sgd_run<T, Decay, kRunning, false>(a, o, begin, end);
}

template <class T>
void sgd_typed(const Arrays& a, const SgdOptions& o, int64_t begin, int64_t end) {
  return o.weight_decay != 0 ? sgd_choose<T, true>(a, o, begin, end)
                             : sgd_choose<T, false>(a, o, begin, end);
}

void sgd(const Arrays& a, const SgdOptions& o, int64_t begin, int64_t end) {
  return a.dtype == DType::Float32 ? sgd_typed<float>(a, o, begin, end)
                                   : sgd_typed<double>(a, o, begin, end);
}

template <class T, bool Decay, bool Largest>
void adam_run(const Arrays& a, const AdamOptions& o, int64_t begin, int64_t end) {
  T* __restrict p = static_cast<T*>(a.param);
  const T* __restrict g = static_cast<const T*>(a.grad);
  T* __restrict m = static_cast<T*>(a.first);
  T* __restrict v = static_cast<T*>(a.second);
  T* __restrict top = static_cast<T*>(a.largest);
  const T sign = o.maximize ? T(-1) : T(1), decay = T(o.weight_decay);
  const T keep = o.decoupled ? T(1 - o.lr * o.weight_decay) : T(1);
  const T mix = T(1 - o.beta1), unmixed = T(o.beta1), beta2 = T(o.beta2), fresh = T(1 - o.beta2);
  const T scale = T(std::sqrt(1 - std::pow(o.beta2, a.step))), eps = T(o.eps);
  const T down = T(-(o.lr / (1 - std::pow(o.beta1, a.step))));
  // The mean as one of two lines, exact at both ends: see lerp in arithmetic.cpp.
  const bool near_old = mix < T(0.5);
  for (int64_t i = begin; i < end; ++i) {
    const T param = keep * p[i];
    T grad = sign * g[i];
    if constexpr (Decay) grad = grad + decay * param;
    const T span = grad - m[i];
    const T mean = near_old ? m[i] + mix * span : grad - span * unmixed;
    T square = beta2 * v[i] + fresh * grad * grad;
    m[i] = mean;
    v[i] = square;
    if constexpr (Largest) {
      // Written so that NaN stays, as it does in `maximum`.
      square = top[i] > square ? top[i] : (top[i] != top[i] ? top[i] : square);
      top[i] = square;
    }
    p[i] = param + down * mean / (root(square) / scale + eps);
  }
}

template <class T, bool Decay>
void adam_choose(const Arrays& a, const AdamOptions& o, int64_t begin, int64_t end) {
  return a.largest ? adam_run<T, Decay, true>(a, o, begin, end)
                   : adam_run<T, Decay, false>(a, o, begin, end);
}

template <class T>
void adam_typed(const Arrays& a, const AdamOptions& o, int64_t begin, int64_t end) {
  const bool coupled = o.weight_decay != 0 && !o.decoupled;
  return coupled ? adam_choose<T, true>(a, o, begin, end) : adam_choose<T, false>(a, o, begin, end);
}

void adam(const Arrays& a, const AdamOptions& o, int64_t begin, int64_t end) {
  return a.dtype == DType::Float32 ? adam_typed<float>(a, o, begin, end)
                                   : adam_typed<double>(a, o, begin, end);
}

}  // namespace

extern const optim::Loops kOptimLoops;
const optim::Loops kOptimLoops = {sgd, adam};

}  // namespace adjoint::ADJOINT_ISA_TAG
