// Orthogonal polynomials and their derivatives of any order, by recurrence in the degree:
//
//   p[k+1] = (a x + b) p[k] - c p[k-1]       a, b, c depend on k
//
// and, differentiated m times, p[k+1]^(m) = (a x + b) p[k]^(m) + m a p[k]^(m-1) - c p[k-1]^(m).
// It runs in one precision more than the result has. Chebyshev's polynomials of high degree are
// cosines of multiples of an angle.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/elementwise/loops.h"
#include "kernels/special/wider.h"

namespace adjoint::Base {
namespace {

template <class R>
struct Step {
  R a, b, c;
};

// Each family says its first two members, p[0] = 1 and p[1] = first x + constant, and its step from
// degree k to k + 1.
struct ChebyshevT {
  static constexpr int first = 1, constant = 0;
  template <class R>
  static Step<R> step(R) {
    return {2, 0, 1};
  }
};
struct ChebyshevU : ChebyshevT {
  static constexpr int first = 2;
};
struct ChebyshevV : ChebyshevT {
  static constexpr int first = 2, constant = -1;
};
struct ChebyshevW : ChebyshevT {
  static constexpr int first = 2, constant = 1;
};
struct HermiteH {
  static constexpr int first = 2, constant = 0;
  template <class R>
  static Step<R> step(R k) {
    return {2, 0, 2 * k};
  }
};
struct HermiteHe {
  static constexpr int first = 1, constant = 0;
  template <class R>
  static Step<R> step(R k) {
    return {1, 0, k};
  }
};
struct Laguerre {
  static constexpr int first = -1, constant = 1;
  template <class R>
  static Step<R> step(R k) {
    return {-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1)};
  }
};
struct Legendre {
  static constexpr int first = 1, constant = 0;
  template <class R>
  static Step<R> step(R k) {
    return {(2 * k + 1) / (k + 1), 0, k / (k + 1)};
  }
};

// A recurrence of more steps would take longer than anybody waits, and its digits are lost: NaN.
constexpr int64_t kMostSteps = 1 << 24;

// The value: the common case, without arrays.
template <class F, class R>
R value_at(R x, int64_t n) {
  if (n < 0) return 0;
  if (n > kMostSteps) return std::numeric_limits<R>::quiet_NaN();
  R before = 1, now = F::first * x + F::constant;
  if (n == 0) return before;
  for (int64_t k = 1; k < n; ++k) {
    const Step<R> s = F::template step<R>(static_cast<R>(k));
    const R next = (s.a * x + s.b) * now - s.c * before;
    before = now;
    now = next;
    if (!(std::abs(now) <= std::numeric_limits<R>::max())) break;  // it stays infinite, or NaN
  }
  return now;
}

template <class F, class R>
R derivative_at(R x, int64_t n, int64_t order) {
  if (order == 0) return value_at<F>(x, n);
  if (n < order) return x != x ? x : R(0);
  if (n > kMostSteps) return std::numeric_limits<R>::quiet_NaN();
  std::vector<R> before(static_cast<size_t>(order + 1)), now(before), next(before);
  before[0] = 1;
  now[0] = F::first * x + F::constant;
  now[1] = F::first;
  for (int64_t k = 1; k < n; ++k) {
    const Step<R> s = F::template step<R>(static_cast<R>(k));
    for (size_t m = 0; m < now.size(); ++m) {
      next[m] = (s.a * x + s.b) * now[m] - s.c * before[m];
      if (m) next[m] += static_cast<R>(m) * s.a * now[m - 1];
    }
    before.swap(now);
    now.swap(next);
    if (!(std::abs(now.back()) <= std::numeric_limits<R>::max())) break;
  }
  return now.back();
}

// From this degree on Chebyshev's polynomials are computed from the angle: the recurrence takes
// long, and between -1 and 1 it loses digits.
constexpr int64_t kHigh = 64;

// The polynomial at cos(angle), or at +-cosh(angle): ratio(m, h) = sin(m angle) / sin(h angle) and
// so on, where the half angle stands for V and W.
template <class F, class R>
R chebyshev(R x, int64_t n) {
  if (n < kHigh || x != x) return value_at<F>(x, n);
  const R m = static_cast<R>(n), a = std::abs(x);
  const bool odd = n % 2;
  if (a == 1) {
    const bool right = x > 0;
    if constexpr (std::is_same_v<F, ChebyshevT>) return right || !odd ? 1 : -1;
    if constexpr (std::is_same_v<F, ChebyshevU>) return right || !odd ? m + 1 : -(m + 1);
    if constexpr (std::is_same_v<F, ChebyshevV>)
      return right ? R(1) : odd ? -(2 * m + 1) : 2 * m + 1;
    return right ? 2 * m + 1 : odd ? R(-1) : R(1);
  }
  if (a < 1) {
    const R angle = std::acos(x);
    if constexpr (std::is_same_v<F, ChebyshevT>) return std::cos(m * angle);
    if constexpr (std::is_same_v<F, ChebyshevU>)
      return std::sin((m + 1) * angle) / std::sqrt((1 - x) * (1 + x));
    if constexpr (std::is_same_v<F, ChebyshevV>)
      return std::cos((m + R(0.5)) * angle) / std::cos(angle / 2);
    return std::sin((m + R(0.5)) * angle) / std::sin(angle / 2);
  }
  // Beyond 1; the mirror image of V is W.
  const R angle = std::acosh(a);
  const bool negative = x < 0;
  R value;
  if constexpr (std::is_same_v<F, ChebyshevT>) {
    value = std::cosh(m * angle);
  } else if constexpr (std::is_same_v<F, ChebyshevU>) {
    value = std::sinh((m + 1) * angle) / std::sinh(angle);
  } else {
    const bool cosines = std::is_same_v<F, ChebyshevV> != negative;
    const R h = m + R(0.5);
    value = cosines ? std::cosh(h * angle) / std::cosh(angle / 2)
                    : std::sinh(h * angle) / std::sinh(angle / 2);
  }
  return negative && odd ? -value : value;
}

// Degrees are cut to integers; NaN has none.
template <class T>
int64_t degree(T n) {
  constexpr T most = 9e18;
  return n != n ? 0 : n > most ? INT64_MAX : n < -1 ? -1 : static_cast<int64_t>(n);
}

template <class F>
void add(const char* value, const char* derivative) {
  same<float, double>(value, [](auto x, auto n) {
    using T = decltype(x);
    using R = special::wider_t<T>;
    if constexpr (std::is_base_of_v<ChebyshevT, F>)
      return static_cast<T>(chebyshev<F, R>(x, degree(n)));
    else
      return static_cast<T>(value_at<F, R>(x, degree(n)));
  });
  same<float, double>(derivative, [](auto x, auto n, auto order) {
    using T = decltype(x);
    using R = special::wider_t<T>;
    return static_cast<T>(derivative_at<F, R>(x, degree(n), static_cast<int64_t>(order)));
  });
}

// At 2 x - 1, which is exact in the wider precision.
template <class F>
void add_shifted(const char* value, const char* derivative) {
  same<float, double>(value, [](auto x, auto n) {
    using T = decltype(x);
    using R = special::wider_t<T>;
    return static_cast<T>(chebyshev<F, R>(2 * static_cast<R>(x) - 1, degree(n)));
  });
  same<float, double>(derivative, [](auto x, auto n, auto order) {
    using T = decltype(x);
    using R = special::wider_t<T>;
    const auto m = static_cast<int64_t>(order);
    const R value = derivative_at<F, R>(2 * static_cast<R>(x) - 1, degree(n), m);
    return static_cast<T>(std::ldexp(value, static_cast<int>(m)));
  });
}

const bool registered = [] {
  add<ChebyshevT>("chebyshev_polynomial_t", "chebyshev_polynomial_t_derivative");
  add<ChebyshevU>("chebyshev_polynomial_u", "chebyshev_polynomial_u_derivative");
  add<ChebyshevV>("chebyshev_polynomial_v", "chebyshev_polynomial_v_derivative");
  add<ChebyshevW>("chebyshev_polynomial_w", "chebyshev_polynomial_w_derivative");
  add_shifted<ChebyshevT>("shifted_chebyshev_polynomial_t",
                          "shifted_chebyshev_polynomial_t_derivative");
  add_shifted<ChebyshevU>("shifted_chebyshev_polynomial_u",
                          "shifted_chebyshev_polynomial_u_derivative");
  add_shifted<ChebyshevV>("shifted_chebyshev_polynomial_v",
                          "shifted_chebyshev_polynomial_v_derivative");
  add_shifted<ChebyshevW>("shifted_chebyshev_polynomial_w",
                          "shifted_chebyshev_polynomial_w_derivative");
  add<HermiteH>("hermite_polynomial_h", "hermite_polynomial_h_derivative");
  add<HermiteHe>("hermite_polynomial_he", "hermite_polynomial_he_derivative");
  add<Laguerre>("laguerre_polynomial_l", "laguerre_polynomial_l_derivative");
  add<Legendre>("legendre_polynomial_p", "legendre_polynomial_p_derivative");
  return true;
}();

}  // namespace
}  // namespace adjoint::Base
