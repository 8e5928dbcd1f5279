// Distributions whose parameters differ from element to element: gamma, Poisson, binomial. See
// distributions.h.
//
// Gamma: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). Poisson and
// binomial: counting while that is cheap, otherwise the transformed rejection of Hörmann, PTRS and
// BTRS (1993), with the constants of those papers.
#include <cmath>
#include <sstream>

#include "random/distributions.h"
#include "random/elements.h"

namespace adjoint::random {
namespace {

double next_unit(Generator& g) { return unit(g.random64()); }

// Constants of single precision and parameters of type W: so PyTorch rounds.
template <class W>
double one_gamma(Generator& g, W alpha) {
  double scale = 1;
  if (alpha < 1) {
    if (alpha == 0) return 0;
    // A gamma of shape alpha is one of alpha + 1 times a power of a uniform number.
    scale = std::pow(1 - next_unit(g), static_cast<double>(1 / alpha));
    alpha += 1;
  }
  const double d = alpha - 1.0f / 3.0f, c = 1 / std::sqrt(9 * d);
  while (true) {
    double x, y;
    do {
      x = next_normal(g);
      y = 1 + c * x;
    } while (y <= 0);
    const double v = y * y * y, u = 1 - next_unit(g), xx = x * x;
    if (u < 1 - 0.0331f * xx * xx) return scale * d * v;
    if (std::log(u) < 0.5 * xx + d * (1 - v + std::log(v))) return scale * d * v;
  }
}

// The time to the first event, added up until a unit is over; as a product of uniforms.
double counted_events(Generator& g, double rate) {
  const double limit = std::exp(-rate);
  double product = 1, count = 0;
  while ((product *= next_unit(g)) > limit) ++count;
  return count;
}

double rejected_events(Generator& g, double rate) {
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
  const double log_rate = std::log(rate);
  while (true) {
    const double u = next_unit(g) - 0.5, v = next_unit(g), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        -rate + k * log_rate - std::lgamma(k + 1)) {
      return k;
    }
  }
}

double one_poisson(Generator& g, double rate) {
  if (rate == 0) return 0;
  return rate >= 10 ? rejected_events(g, rate) : counted_events(g, rate);
}

// log(k!) less Stirling's formula.
double stirling_rest(double k) {
  static constexpr double table[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983,
                                     0.02079067210376509, 0.0166446911898211, 0.0138761288230707,
                                     0.0118967099458917,  0.0104112652619720, 0.00925546218271273,
                                     0.00833056343336287};
  if (k <= 9) return table[static_cast<int>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

// The waiting times to each success, added up until the trials are over.
template <class W>
W counted_successes(Generator& g, W count, W p) {
  const W log_failure = std::log1p(-p);
  W waited = 0, successes = 0;
  while (true) {
    const W u = static_cast<W>(next_unit(g));
    waited += std::ceil(std::log(u) / log_failure);
    if (!(waited <= count)) return successes;
    successes += 1;
  }
}

// Each line in double precision, kept in W: so PyTorch rounds.
template <class W>
W rejected_successes(Generator& g, W count, W p) {
  const W deviation = std::sqrt(count * p * (1 - p));
  const W b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const W centre = count * p + 0.5, vr = 0.92 - 4.2 / b, odds = p / (1 - p);
  const W alpha = (2.83 + 5.1 / b) * deviation, mode = std::floor((count + 1) * p);
  while (true) {
    const W u = next_unit(g) - 0.5;
    W v = next_unit(g);
    const W us = 0.5 - std::fabs(u);
    const W k = std::floor((2 * a / us + b) * u + centre);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || k > count) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const W bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count - mode + 1))) +
                    (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
                    (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) +
                    static_cast<W>(stirling_rest(mode)) +
                    static_cast<W>(stirling_rest(count - mode)) - static_cast<W>(stirling_rest(k)) -
                    static_cast<W>(stirling_rest(count - k));
    if (v <= bound) return k;
  }
}

template <class W>
W one_binomial(Generator& g, W count, W p) {
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  // Of successes and failures the rarer are drawn. Not a number stays one.
  if (std::isnan(p) || std::isnan(count)) return p + count;
  const W rare = p <= W(0.5) ? p : 1 - p;
  const W drawn = count * rare >= 10 ? rejected_successes<W>(g, count, rare)
                                     : counted_successes<W>(g, count, rare);
  return p <= W(0.5) ? drawn : count - drawn;
}

template <class T>
void refuse_negative(const char* name, const char* what, const T* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (widen(values[i]) >= 0) continue;  // NaN is refused too
    std::ostringstream text;
    text << name << " expects " << what << " >= 0, but element " << i << " is " << widen(values[i]);
    throw std::runtime_error(text.str());
  }
}

}  // namespace

void gamma(Generator& g, DType dtype, void* out, int64_t n, const void* alpha) {
  if (!is_floating(dtype)) throw unsupported_dtype("_standard_gamma", dtype);
  std::lock_guard lock(g.mutex);
  visit_floating(dtype, [&]<class T>(Type<T>) {
    const T* shape = static_cast<const T*>(alpha);
    T* to = static_cast<T*>(out);
    const double smallest = kIsHalf<T> ? std::numeric_limits<float>::min()
                                       : static_cast<double>(std::numeric_limits<Wide<T>>::min());
    for (int64_t i = 0; i < n; ++i)
      to[i] = cast<T>(std::max(smallest, one_gamma<Wide<T>>(g, widen(shape[i]))));
  });
}

void poisson(Generator& g, DType dtype, void* out, int64_t n, const void* rate) {
  if (!is_floating(dtype)) throw unsupported_dtype("poisson", dtype);
  std::lock_guard lock(g.mutex);
  visit_floating(dtype, [&]<class T>(Type<T>) {
    const T* rates = static_cast<const T*>(rate);
    refuse_negative("poisson", "a rate", rates, n);
    T* to = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) to[i] = cast<T>(one_poisson(g, widen(rates[i])));
  });
}

void binomial(Generator& g, DType dtype, void* out, int64_t n, const void* count,
              const void* probability) {
  if (!is_floating(dtype)) throw unsupported_dtype("binomial", dtype);
  std::lock_guard lock(g.mutex);
  visit_floating(dtype, [&]<class T>(Type<T>) {
    const T *counts = static_cast<const T*>(count), *p = static_cast<const T*>(probability);
    T* to = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i)
      to[i] = cast<T>(one_binomial<Wide<T>>(g, widen(counts[i]), widen(p[i])));
  });
}

}  // namespace adjoint::random
