// The optimizers' formulas, written once, for whatever a number is: an element in the native loops
// (kernels/isa/optim.cpp), or a whole tensor, computed with ops, where these do not fit
// (bindings/optim.cpp). `A` says what a `Number` is and how to compute with it.
//
// Every choice is a template argument, so that what is left inside a loop is arithmetic the
// compiler turns into vectors. Functions are static: each instruction set has its own.
#pragma once
#include <cmath>

#include "kernels/optim/optim.h"

namespace adjoint::optim {

enum Velocity { kNone, kFirst, kRunning };

template <class Scalar>
struct SgdNumbers {
  explicit SgdNumbers(const SgdOptions& o)
      : sign(o.maximize ? -1 : 1),
        decay(Scalar(o.weight_decay)),
        momentum(Scalar(o.momentum)),
        fresh(Scalar(1 - o.dampening)),
        down(Scalar(-o.lr)) {}
  const Scalar sign, decay, momentum, fresh, down;
};

template <class A, bool Decay, Velocity Kind, bool Nesterov, class N = typename A::Number>
[[gnu::always_inline]] static inline void sgd_formula(N& param, N grad, N& velocity,
                                                      const SgdNumbers<typename A::Scalar>& c) {
  grad = A::scaled(grad, c.sign);
  if constexpr (Decay) grad = A::add_scaled(grad, c.decay, param);
  N move = grad;
  if constexpr (Kind != kNone) {
    if constexpr (Kind == kFirst) velocity = grad;
    if constexpr (Kind == kRunning)
      velocity = A::add_scaled(A::scaled(velocity, c.momentum), c.fresh, grad);
    move = velocity;
    if constexpr (Nesterov) move = A::add_scaled(grad, c.momentum, velocity);
  }
  param = A::add_scaled(param, c.down, move);
}

// Calls f.operator()<Decay, Kind, Nesterov>() for what the options say.
template <class F>
static inline void choose_sgd(const SgdOptions& o, bool has_velocity, F&& f) {
  auto decided = [&]<bool Decay>() {
    if (!has_velocity) return f.template operator()<Decay, kNone, false>();
    if (o.first)
      return o.nesterov ? f.template operator()<Decay, kFirst, true>()
                        : f.template operator()<Decay, kFirst, false>();
    return o.nesterov ? f.template operator()<Decay, kRunning, true>()
                      : f.template operator()<Decay, kRunning, false>();
  };
  return o.weight_decay != 0 ? decided.template operator()<true>()
                             : decided.template operator()<false>();
}

template <class Scalar>
struct AdamNumbers {
  AdamNumbers(const AdamOptions& o, double step)
      : sign(o.maximize ? -1 : 1),
        decay(Scalar(o.weight_decay)),
        keep(o.decoupled ? Scalar(1 - o.lr * o.weight_decay) : Scalar(1)),
        mix(Scalar(1 - o.beta1)),
        unmixed(Scalar(o.beta1)),
        beta2(Scalar(o.beta2)),
        fresh(Scalar(1 - o.beta2)),
        scale(Scalar(std::sqrt(1 - std::pow(o.beta2, step)))),
        eps(Scalar(o.eps)),
        down(Scalar(-(o.lr / (1 - std::pow(o.beta1, step))))) {}
  const Scalar sign, decay, keep, mix, unmixed, beta2, fresh, scale, eps, down;
};

template <class A, bool Decay, bool Largest, class N = typename A::Number>
[[gnu::always_inline]] static inline void adam_formula(N& param, N grad, N& mean, N& square,
                                                       N& largest,
                                                       const AdamNumbers<typename A::Scalar>& c) {
  param = A::scaled(param, c.keep);
  grad = A::scaled(grad, c.sign);
  if constexpr (Decay) grad = A::add_scaled(grad, c.decay, param);
  mean = A::mixed(mean, grad, c.mix, c.unmixed);
  square = A::add_product(A::scaled(square, c.beta2), c.fresh, grad, grad);
  N used = square;
  if constexpr (Largest) used = largest = A::larger(largest, square);
  param = A::add_quotient(param, c.down, mean, A::root_over(used, c.scale, c.eps));
}

// Calls f.operator()<Decay, Largest>() for what the options say.
template <class F>
static inline void choose_adam(const AdamOptions& o, bool has_largest, F&& f) {
  if (o.weight_decay != 0 && !o.decoupled)
    return has_largest ? f.template operator()<true, true>() : f.template operator()<true, false>();
  return has_largest ? f.template operator()<false, true>() : f.template operator()<false, false>();
}

}  // namespace adjoint::optim
