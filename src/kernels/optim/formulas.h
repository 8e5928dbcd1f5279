// The optimizers' formulas, written once, for whatever a number is: an element in the native loops
// (../isa/optim.cpp), or a whole tensor, computed with ops, where these do not fit or a gradient
// through the step is wanted (../../bindings/optim.cpp). `A` says what a `Number` is, what a `Scalar`
// is, and how to compute with them; the operations are those of PyTorch, so that the roundings are.
//
// A rule has columns (the parameter, its gradient, state) and numbers that are the same for all
// elements; what these are follows from options and step counts and is found in Python
// (python/adjoint/optim). What an option changes in the formula is a bit of `Choice`, a template
// argument, so that what is left inside a loop is arithmetic that the compiler turns into vectors.
// Functions are static: each instruction set has its own.
#pragma once
#include <tuple>
#include <type_traits>

#include "kernels/optim/optim.h"

namespace adjoint::optim {

#define ADJOINT_FORMULA                                 \
  template <class A, unsigned Choice, class X, class C> \
  [[gnu::always_inline]] static inline void update(X& x, const C& c)

// What most rules say of themselves: one bit, whether weight decay is added to the gradient, and
// every column is read and written.
struct Rule {
  static constexpr unsigned kDecay = 1, kChoices = 2;
  static constexpr bool valid(unsigned) { return true; }
  static constexpr bool reads(unsigned, int) { return true; }
  static constexpr bool writes(unsigned, int column) { return column != 1; }
};

// The direction to go, with the gradient of the decay in it. `sign` is -1 to maximise.
template <class A, bool Decay, class N, class S>
[[gnu::always_inline]] static inline N wanted(const N& grad, const N& param, const S& sign,
                                              const S& decay) {
  const N up = A::scaled(grad, sign);
  if constexpr (Decay) return A::add_scaled(up, decay, param);
  return up;
}

// b = momentum b + (1 - dampening) g (or g at the first step); p -= lr b, or
// lr (g + momentum b) after Nesterov. Without momentum b is g.
struct Sgd : Rule {
  static constexpr const char* kName = "sgd";
  static constexpr int kColumns = 3, kNumbers = 5;
  static constexpr unsigned kVelocity = 2, kFirst = 4, kNesterov = 8, kChoices = 16;
  static constexpr bool valid(unsigned choice) {
    return (choice & kVelocity) || !(choice & (kFirst | kNesterov));
  }
  static constexpr bool reads(unsigned choice, int column) {
    return column != 2 || ((choice & kVelocity) && !(choice & kFirst));
  }
  static constexpr bool writes(unsigned choice, int column) {
    return column == 0 || (column == 2 && (choice & kVelocity));
  }
  ADJOINT_FORMULA {
    auto& [param, grad, velocity] = x;
    auto& [sign, decay, momentum, fresh, down] = c;
    grad = wanted<A, (Choice & kDecay) != 0>(grad, param, sign, decay);
    if constexpr ((Choice & kVelocity) != 0) {
      if constexpr ((Choice & kFirst) != 0) {
        velocity = grad;
      } else {
        velocity = A::add_scaled(A::scaled(velocity, momentum), fresh, grad);
      }
      if constexpr ((Choice & kNesterov) != 0) {
        grad = A::add_scaled(grad, momentum, velocity);
      } else {
        grad = velocity;
      }
    }
    param = A::add_scaled(param, down, grad);
  }
};

// m += (1 - beta1)(g - m);  v = beta2 v + (1 - beta2) g g;
// p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
// Decoupled decay shrinks p first; amsgrad puts max(vmax, v) for v.
struct Adam : Rule {
  static constexpr const char* kName = "adam";
  static constexpr int kColumns = 5, kNumbers = 9;
  static constexpr unsigned kLargest = 2, kChoices = 4;
  static constexpr bool reads(unsigned choice, int column) {
    return column != 4 || (choice & kLargest);
  }
  static constexpr bool writes(unsigned choice, int column) {
    return column != 1 && reads(choice, column);
  }
  ADJOINT_FORMULA {
    auto& [param, grad, mean, square, largest] = x;
    auto& [sign, decay, keep, mix, beta2, fresh, scale, eps, down] = c;
    param = A::scaled(param, keep);
    grad = wanted<A, (Choice & kDecay) != 0>(grad, param, sign, decay);
    mean = A::mixed(mean, grad, mix);
    square = A::add_product(A::scaled(square, beta2), fresh, grad, grad);
    auto used = square;
    if constexpr ((Choice & kLargest) != 0) used = largest = A::larger(largest, square);
    param = A::add_quotient(param, down, mean, A::plus(A::divided(A::root(used), scale), eps));
  }
};

// v = rho v + (1 - rho) g g;  d = sqrt(u + eps) / sqrt(v + eps) g;  u = rho u + (1 - rho) d d;
// p -= lr d.
struct Adadelta : Rule {
  static constexpr const char* kName = "adadelta";
  static constexpr int kColumns = 4, kNumbers = 6;
  ADJOINT_FORMULA {
    auto& [param, grad, square, moved] = x;
    auto& [sign, decay, rho, fresh, eps, down] = c;
    grad = wanted<A, (Choice & kDecay) != 0>(grad, param, sign, decay);
    square = A::add_product(A::scaled(square, rho), fresh, grad, grad);
    const auto ratio = A::quotient(A::root(A::plus(moved, eps)), A::root(A::plus(square, eps)));
    const auto move = A::product(ratio, grad);
    moved = A::add_product(A::scaled(moved, rho), fresh, move, move);
    param = A::add_scaled(param, down, move);
  }
};

// s += g g;  p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps).
struct Adagrad : Rule {
  static constexpr const char* kName = "adagrad";
  static constexpr int kColumns = 3, kNumbers = 4;
  ADJOINT_FORMULA {
    auto& [param, grad, sum] = x;
    auto& [sign, decay, eps, down] = c;
    grad = wanted<A, (Choice & kDecay) != 0>(grad, param, sign, decay);
    sum = A::add_product(sum, grad, grad);
    param = A::add_quotient(param, down, grad, A::plus(A::root(sum), eps));
  }
};

// m += (1 - beta1)(g - m);  u = max(beta2 u, |g| + eps);  p -= lr / (1 - beta1^t) m / u.
struct Adamax : Rule {
  static constexpr const char* kName = "adamax";
  static constexpr int kColumns = 4, kNumbers = 6;
  ADJOINT_FORMULA {
    auto& [param, grad, mean, largest] = x;
    auto& [sign, decay, mix, beta2, eps, down] = c;
    grad = wanted<A, (Choice & kDecay) != 0>(grad, param, sign, decay);
    mean = A::mixed(mean, grad, mix);
    largest = A::larger(A::scaled(largest, beta2), A::plus(A::absolute(grad), eps));
    param = A::add_quotient(param, down, mean, largest);
  }
};

// p = (1 - lambd eta) p - eta g;  a += mu (p - a), or a = p while mu is one.
struct Asgd : Rule {
  static constexpr const char* kName = "asgd";
  static constexpr int kColumns = 3, kNumbers = 5;
  static constexpr unsigned kCopy = 2, kChoices = 4;
  static constexpr bool reads(unsigned choice, int column) {
    return column != 2 || !(choice & kCopy);
  }
  ADJOINT_FORMULA {
    auto& [param, grad, average] = x;
    auto& [sign, decay, keep, down, mu] = c;
    grad = wanted<A, (Choice & kDecay) != 0>(grad, param, sign, decay);
    param = A::add_scaled(A::scaled(param, keep), down, grad);
    if constexpr ((Choice & kCopy) != 0) {
      average = param;
    } else {
      average = A::sum(average, A::scaled(A::difference(param, average), mu));
    }
  }
};

// Adam's means, and a step along the gradient and the mean gradient, each with its own factor
// (Nesterov's momentum, with a schedule).
struct Nadam : Rule {
  static constexpr const char* kName = "nadam";
  static constexpr int kColumns = 4, kNumbers = 10;
  ADJOINT_FORMULA {
    auto& [param, grad, mean, square] = x;
    auto& [sign, decay, keep, mix, beta2, fresh, correction, eps, along_grad, along_mean] = c;
    param = A::scaled(param, keep);
    grad = wanted<A, (Choice & kDecay) != 0>(grad, param, sign, decay);
    mean = A::mixed(mean, grad, mix);
    square = A::add_product(A::scaled(square, beta2), fresh, grad, grad);
    const auto scale = A::plus(A::root(A::divided(square, correction)), eps);
    param = A::add_quotient(param, along_grad, grad, scale);
    param = A::add_quotient(param, along_mean, mean, scale);
  }
};

// Adam's means; the mean square is used (rectified) once there are enough steps to trust it.
struct Radam : Rule {
  static constexpr const char* kName = "radam";
  static constexpr int kColumns = 4, kNumbers = 11;
  static constexpr unsigned kRectified = 2, kChoices = 4;
  ADJOINT_FORMULA {
    auto& [param, grad, mean, square] = x;
    auto& [sign, decay, keep, mix, beta2, fresh, correction, lr, scale, eps, rectifier] = c;
    param = A::scaled(param, keep);
    grad = wanted<A, (Choice & kDecay) != 0>(grad, param, sign, decay);
    mean = A::mixed(mean, grad, mix);
    square = A::add_product(A::scaled(square, beta2), fresh, grad, grad);
    auto move = A::scaled(A::divided(mean, correction), lr);
    if constexpr ((Choice & kRectified) != 0) {
      const auto adapted = A::dividing(scale, A::plus(A::root(square), eps));
      move = A::scaled(A::product(move, adapted), rectifier);
    }
    param = A::difference(param, move);
  }
};

// v = alpha v + (1 - alpha) g g;  s = sqrt(v - (centered ? m m : 0)) + eps with the mean gradient
// m;  p -= lr g / s, or lr b with the velocity b = momentum b + g / s.
struct RmsProp : Rule {
  static constexpr const char* kName = "rmsprop";
  static constexpr int kColumns = 5, kNumbers = 7;
  static constexpr unsigned kCentered = 2, kVelocity = 4, kChoices = 8;
  static constexpr bool reads(unsigned choice, int column) {
    return column < 3 || (choice & (column == 3 ? kCentered : kVelocity));
  }
  static constexpr bool writes(unsigned choice, int column) {
    return column != 1 && reads(choice, column);
  }
  ADJOINT_FORMULA {
    auto& [param, grad, square, mean, velocity] = x;
    auto& [sign, decay, alpha, fresh, eps, momentum, down] = c;
    grad = wanted<A, (Choice & kDecay) != 0>(grad, param, sign, decay);
    square = A::add_product(A::scaled(square, alpha), fresh, grad, grad);
    auto variance = square;
    if constexpr ((Choice & kCentered) != 0) {
      mean = A::mixed(mean, grad, fresh);
      variance = A::subtract_product(square, mean, mean);
    }
    const auto scale = A::plus(A::root(variance), eps);
    if constexpr ((Choice & kVelocity) != 0) {
      velocity = A::add_quotient(A::scaled(velocity, momentum), grad, scale);
      param = A::add_scaled(param, down, velocity);
    } else {
      param = A::add_quotient(param, down, grad, scale);
    }
  }
};

// A step for each element, made longer while the sign of the gradient stays and shorter when it
// turns; then the element waits for one step.
struct Rprop : Rule {
  static constexpr const char* kName = "rprop";
  static constexpr int kColumns = 4, kNumbers = 5;
  static constexpr unsigned kChoices = 1;
  ADJOINT_FORMULA {
    auto& [param, grad, before, size] = x;
    auto& [sign, shorter, longer, smallest, largest] = c;
    grad = A::scaled(grad, sign);
    const auto agreement = A::product(grad, before);
    size = A::clamped(A::product(size, A::by_sign(agreement, shorter, longer)), smallest, largest);
    before = A::unless_negative(agreement, grad);
    param = A::subtract_product(param, A::sign(before), size);
  }
};

#undef ADJOINT_FORMULA

using Rules = std::tuple<Sgd, Adam, Adadelta, Adagrad, Adamax, Asgd, Nadam, Radam, RmsProp, Rprop>;
inline constexpr int kRules = std::tuple_size_v<Rules>;

// Calls f.operator()<Choice>() for the rule's choice; false when the rule has no such choice.
template <class R, unsigned Choice = 0, class F>
static inline bool choose(unsigned choice, F&& f) {
  if constexpr (Choice < R::kChoices) {
    if constexpr (R::valid(Choice)) {
      if (choice == Choice) {
        f.template operator()<Choice>();
        return true;
      }
    }
    return choose<R, Choice + 1>(choice, f);
  }
  return false;
}

}  // namespace adjoint::optim
