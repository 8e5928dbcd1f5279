// The kernels measured by ulp_float.cpp: reference, range of uniform samples, bounds in ulp.
#pragma once
#include <cmath>

struct Case {
  const char* name;
  long double (*reference)(long double);
  double (*quick)(double);  // null: use the reference for float32 too
  long double (*reference2)(long double, long double);
  double low, high;  // uniform samples; bit patterns cover the rest
  double bound32, bound64;
  bool positive = false;  // for negative arguments the roots make relative errors unbounded
};

inline long double sigmoid_reference(long double x) {
  long double e = std::exp(-std::fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
inline double sigmoid_quick(double x) {
  double e = std::exp(-std::fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
inline long double log_sigmoid_reference(long double x) {
  return (x < 0 ? x : std::isnan(x) ? x : 0) - std::log1p(std::exp(-std::fabs(x)));
}
inline long double silu_reference(long double x) {
  return x == -INFINITY ? -0.0L : x * sigmoid_reference(x);
}
inline long double gelu_reference(long double x) {
  return x == -INFINITY ? -0.0L
                        : x * 0.5L * std::erfc(-x * 0.707106781186547524400844362104849039L);
}
inline long double gelu_tanh_reference(long double x) {
  long double u = 0.797884560802865355879892119868763737L * (x + 0.044715 * x * x * x);
  return x == -INFINITY ? -0.0L : x * sigmoid_reference(2 * u);
}

inline constexpr long double kPiL = 3.14159265358979323846264338327950288L;

// Asymptotic series above 40, where eight terms are below 2^-70; recurrence and reflection below.
inline long double digamma_reference(long double x) {
  if (x == 0) return std::copysign(static_cast<long double>(INFINITY), -x);
  if (x == INFINITY || std::isnan(x)) return x;
  if (x < 0) {
    if (x == std::floor(x)) return NAN;
    long double f = x - std::round(x);
    return digamma_reference(1 - x) - kPiL / std::tan(kPiL * f);
  }
  constexpr long double root = 1.4616321449683622, root_rest = 9.549995429965697e-17;
  long double delta = (x - root) - root_rest, r = 0;
  if (std::fabs(delta) < 0.02L) {  // psi(x) - psi(root), term by term: nothing cancels
    for (int n = 0; n < 40; ++n) r += 1 / ((n + x) * (n + root + root_rest));
    long double m = (x + root) / 2 + 40, z = 1 / m;
    r += z * (1 + z * (0.5L + z * (1.L / 6 - z * z * (1.L / 30 - z * z / 42))));
    r += delta * delta / 24 * z * z * z * (2 + z * (3 + z * 2)) +
         std::pow(delta, 4) / 80 * std::pow(z, 5);
    return delta * r;
  }
  for (; x < 40; x += 1) r -= 1 / x;
  long double z = 1 / (x * x);
  long double s =
      z *
      (1.L / 12 -
       z * (1.L / 120 - z * (1.L / 252 - z * (1.L / 240 - z * (1.L / 132 - z * 691.L / 32760)))));
  return r + (std::log(x) - 0.5L / x - s);
}
inline long double trigamma_reference(long double x) {
  if (x == INFINITY) return 0;
  if (x == -INFINITY || std::isnan(x)) return NAN;
  if (x < 0.5L) {
    long double s = std::sin(kPiL * (x - std::round(x)));
    if (s == 0) return INFINITY;
    return kPiL * kPiL / (s * s) - trigamma_reference(1 - x);
  }
  long double r = 0;
  for (; x < 40; x += 1) r += 1 / (x * x);
  long double z = 1 / (x * x);
  return r + 1 / x + z / 2 +
         z / x *
             (1.L / 6 -
              z * (1.L / 30 - z * (1.L / 42 - z * (1.L / 30 - z * (5.L / 66 - z * 691.L / 2730)))));
}
inline long double lgamma_reference(long double x) { return std::lgamma(x); }

// Newton's method on erf or erfc, whichever keeps digits.
inline long double erfinv_reference(long double y) {
  long double a = std::fabs(y);
  if (!(a < 1)) return a == 1 ? std::copysign(static_cast<long double>(INFINITY), y) : NAN;
  if (a == 0) return y;
  long double w = -std::log1p(-a * a);
  long double t = 4.3307467508L - w / 2;
  long double x = std::sqrt(std::sqrt(t * t + w / 0.147L) - t);
  if (a < 1e-4L) x = a * 0.886226925452758013649083741670572591L;
  for (int k = 0; k < 6; ++k) {
    long double e = a < 0.5L ? std::erf(x) - a : (1 - a) - std::erfc(x);
    long double u = e / (1.12837916709551257389615890312154517L * std::exp(-x * x));
    x -= u / (1 + x * u);
  }
  return std::copysign(x, y);
}

inline long double xlogy_reference(long double x, long double y) {
  return std::isnan(y) ? y : x == 0 ? 0 : x * std::log(y);
}
inline long double rsqrt_reference(long double x) { return 1 / std::sqrt(x); }
inline long double mul_cos_reference(long double x, long double y) { return x * std::cos(y); }

#define F(f)                                              \
  [](long double x) -> long double { return std::f(x); }, \
      [](double x) -> double { return std::f(x); }, nullptr
#define G(f) f##_reference, nullptr, nullptr
#define F2(f) \
  nullptr, nullptr, [](long double x, long double y) -> long double { return std::f(x, y); }
#define G2(f) nullptr, nullptr, f##_reference

inline const Case kCases[] = {
    {"exp", F(exp), -100, 100, 1.5, 2},
    {"exp2", F(exp2), -130, 130, 1.5, 2},
    {"expm1", F(expm1), -3, 3, 2, 2},
    {"log", F(log), 0, 4, 1.5, 2},
    {"log2", F(log2), 0, 4, 1.5, 2},
    {"log10", F(log10), 0, 4, 1.5, 2},
    {"log1p", F(log1p), -1, 3, 1.5, 2},
    {"sqrt", F(sqrt), 0, 10, 0.5001, 0.501},
    {"rsqrt", G(rsqrt), 0, 10, 1.5, 1.5},
    {"sin", F(sin), -20, 20, 1.5, 2},
    {"cos", F(cos), -20, 20, 1.5, 2},
    {"tan", F(tan), -20, 20, 4, 3},
    {"asin", F(asin), -1, 1, 2, 3},
    {"acos", F(acos), -1, 1, 1.5, 3},
    {"atan", F(atan), -5, 5, 2, 3},
    {"sinh", F(sinh), -5, 5, 4, 3},
    {"cosh", F(cosh), -5, 5, 4, 3},
    {"tanh", F(tanh), -5, 5, 1.5, 2},
    {"asinh", F(asinh), -5, 5, 4, 4},
    {"acosh", F(acosh), 1, 5, 4, 4},
    {"atanh", F(atanh), -1, 1, 4, 4},
    {"sigmoid", sigmoid_reference, sigmoid_quick, nullptr, -20, 20, 1.5, 2},
    {"log_sigmoid", G(log_sigmoid), -20, 20, 4, 4},
    {"silu", G(silu), -20, 20, 4, 4},
    {"gelu", G(gelu), -5, 5, 6, 6},
    {"gelu_tanh", G(gelu_tanh), -5, 5, 4, 4},
    {"erf", F(erf), -4, 4, 2, 2},
    {"erfc", F(erfc), -4, 10, 5.5, 5.5},
    {"erfinv", G(erfinv), -1, 1, 4, 4},
    {"lgamma", G(lgamma), 0, 20, 1.5, 5, true},
    {"digamma", G(digamma), 0, 20, 1.5, 5, true},
    {"trigamma", G(trigamma), 0, 20, 1.5, 6},
    {"pow", F2(pow), 0, 20, 1.5, 2},
    {"atan2", F2(atan2), -3, 3, 2.5, 2.5},
    {"hypot", F2(hypot), -3, 3, 1.5, 2},
    {"fmod", F2(fmod), -9, 9, 0, 0},
    {"xlogy", G2(xlogy), 0, 9, 2, 4},
    {"mul_cos", G2(mul_cos), -9, 9, 2.5, 3},
};
