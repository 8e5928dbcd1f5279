// The continuous distributions, bernoulli and geometric. See distributions.h.
//
// Most of them draw doubles and round to the dtype at the end, as PyTorch does; the uniform and the
// block-wise normal compute in the dtype itself (16-bit floats in float32).
// Read next: fma_loops.cpp for the arithmetic that has to fuse, integers.cpp, multinomial.cpp.
#include "random/distributions.h"

#include <cmath>
#include <numbers>
#include <sstream>

#include "random/elements.h"
#include "random/fma_loops.h"

namespace adjoint::random {

namespace {

// Throws with the parts joined, in C++'s short form for doubles.
template <class... Parts>
void require(bool ok, const Parts&... parts) {
  if (ok) return;
  std::ostringstream text;
  (text << ... << parts);
  throw std::runtime_error(text.str());
}

struct Range {
  double lowest, highest;
};

Range range_of(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return {-65504.0, 65504.0};
    case DType::BFloat16:
      return {-0x1.fep127, 0x1.fep127};
    case DType::Float32:
      return {-0x1.fffffep127, 0x1.fffffep127};
    default:
      return {std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()};
  }
}

template <class T>
void fill_uniform(Generator& g, T* out, int64_t n, double from, double to) {
  using W = Wide<T>;
  const W low = static_cast<W>(from), width = static_cast<W>(to) - low;
  const W excluded = widen(cast<T>(to));
  const T lowest = cast<T>(from);
  W tile[kTile];
  draw<WordOf<W>>(g, n, [&](const auto* words, int64_t start, int64_t count) {
    for (int64_t i = 0; i < count; ++i) tile[i] = unit(words[i]);
    if (low != 0 || width != 1) scale_shift(tile, count, width, low);
    for (int64_t i = 0; i < count; ++i) {
      const T value = cast<T>(tile[i]);
      // Rounding can reach the excluded end; PyTorch wraps it to the other one.
      out[start + i] = widen(value) == excluded ? lowest : value;
    }
  });
}

template <class T>
void fill_normal_blocks(Generator& g, T* out, int64_t n, double mean, double std) {
  using W = Wide<T>;
  const auto blocks = [&](T* to, int64_t count) {
    W tile[kTile];
    draw<WordOf<W>>(g, count, [&](const auto* words, int64_t start, int64_t m) {
      for (int64_t i = 0; i < m; ++i) tile[i] = unit(words[i]);
      box_muller(tile, m, static_cast<W>(mean), static_cast<W>(std));
      for (int64_t i = 0; i < m; ++i) to[start + i] = cast<T>(tile[i]);
    });
  };
  const int64_t rest = n % 16;
  blocks(out, n - rest);
  if (rest == 0) return;
  // An incomplete block is not made. Instead the last 16 are, anew. Before that PyTorch draws
  // uniforms for the rest too, except for 16-bit floats.
  if (!kIsHalf<T>) g.discard(rest * static_cast<int64_t>(sizeof(WordOf<W>) / 4));
  blocks(out + n - 16, 16);
}

template <class T>
void fill_bernoulli(Generator& g, T* out, int64_t n, double p) {
  draw<uint64_t>(g, n, [&](const uint64_t* words, int64_t start, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[start + i] = cast<T>(unit(words[i]) < p ? 1 : 0);
  });
}

template <class T, class P>
void fill_bernoulli(Generator& g, T* out, int64_t n, const P* p) {
  draw<WordOf<Wide<P>>>(g, n, [&](const auto* words, int64_t start, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      out[start + i] = cast<T>(unit(words[i]) < widen(p[start + i]) ? 1 : 0);
    }
  });
}

// Fill with f(u), u uniform in [0, 1) with 53 bits.
template <class F>
bool fill_from_unit(Generator& g, DType dtype, void* out, int64_t n, F f) {
  return visit_real(dtype, [&]<class T>(Type<T>) {
    draw<uint64_t>(g, n, [&](const uint64_t* words, int64_t start, int64_t count) {
      T* to = static_cast<T*>(out) + start;
      for (int64_t i = 0; i < count; ++i) to[i] = cast<T>(f(unit(words[i])));
    });
  });
}

}  // namespace

double next_normal(Generator& g) {
  if (g.next_double_normal) {
    const double kept = *g.next_double_normal;
    g.next_double_normal.reset();
    return kept;
  }
  const double u1 = unit(g.random64());
  const double u2 = unit(g.random64());
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double angle = 2 * std::numbers::pi * u1;
  g.next_double_normal = radius * std::sin(angle);
  return radius * std::cos(angle);
}

void uniform(Generator& g, DType dtype, void* out, int64_t n, double from, double to) {
  if (is_complex(dtype)) {
    if (n > 0) uniform(g, real_dtype(dtype), out, 2 * n, from, to);
    return;
  }
  if (!is_floating(dtype)) throw unsupported_dtype("uniform_", dtype);
  const auto [lowest, highest] = range_of(dtype);
  require(from >= lowest && from <= highest, "from is out of bounds for ", name_of(dtype),
          ": uniform_ got from=", from);
  require(to >= lowest && to <= highest, "to is out of bounds for ", name_of(dtype),
          ": uniform_ got to=", to);
  require(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
          " > to=", to);
  require(to - from <= highest, "uniform_ expects to - from to be at most ", highest,
          ", the largest ", name_of(dtype), ", but found to=", to, " and from=", from);
  std::lock_guard lock(g.mutex);
  visit_floating(dtype,
                 [&]<class T>(Type<T>) { fill_uniform(g, static_cast<T*>(out), n, from, to); });
}

void normal(Generator& g, DType dtype, void* out, int64_t n, double mean, double std,
            bool contiguous) {
  require(std >= 0, "normal expects std >= 0.0, but found std ", std);
  if (n == 0) return;
  if (is_complex(dtype)) {
    return normal(g, real_dtype(dtype), out, 2 * n, mean, std / std::sqrt(2.0), contiguous);
  }
  if (!is_floating(dtype)) throw unsupported_dtype("normal_", dtype);
  std::lock_guard lock(g.mutex);
  visit_floating(dtype, [&]<class T>(Type<T>) {
    T* to = static_cast<T*>(out);
    if (n >= 16 && contiguous) return fill_normal_blocks(g, to, n, mean, std);
    for (int64_t i = 0; i < n; ++i) to[i] = cast<T>(std::fma(next_normal(g), std, mean));
  });
}

void log_normal(Generator& g, DType dtype, void* out, int64_t n, double mean, double std) {
  require(std > 0, "log_normal_ expects std > 0.0, but found std=", std);
  if (n == 0) return;
  if (!is_floating(dtype)) throw unsupported_dtype("log_normal_", dtype);
  std::lock_guard lock(g.mutex);
  visit_floating(dtype, [&]<class T>(Type<T>) {
    T* to = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) {
      to[i] = cast<T>(std::exp(std::fma(next_normal(g), std, mean)));
    }
  });
}

void exponential(Generator& g, DType dtype, void* out, int64_t n, double lambda) {
  require(lambda > 0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
  if (n == 0) return;
  require(is_floating(dtype), "Exponential distribution is a continuous probability distribution. ",
          "dtype must be a floating point but you specified ", name_of(dtype));
  const double scale = -1.0 / lambda;
  std::lock_guard lock(g.mutex);
  fill_from_unit(g, dtype, out, n, [=](double u) { return scale * std::log1p(-u); });
}

void cauchy(Generator& g, DType dtype, void* out, int64_t n, double median, double sigma) {
  require(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  require(is_floating(dtype), "Cauchy distribution is a continuous probability distribution. ",
          "dtype must be a floating point but you specified ", name_of(dtype));
  std::lock_guard lock(g.mutex);
  fill_from_unit(g, dtype, out, n, [=](double u) {
    return std::fma(sigma, std::tan(std::numbers::pi * (u - 0.5)), median);
  });
}

void geometric(Generator& g, DType dtype, void* out, int64_t n, double p) {
  require(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  if (n == 0) return;
  if (is_complex(dtype) || dtype == DType::Bool) throw unsupported_dtype("geometric_", dtype);
  const double log_failure = std::log1p(-p);
  std::lock_guard lock(g.mutex);
  fill_from_unit(g, dtype, out, n, [=](double u) { return std::ceil(std::log(u) / log_failure); });
}

void bernoulli(Generator& g, DType dtype, void* out, int64_t n, double p) {
  require(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  if (n == 0) return;
  if (is_complex(dtype)) throw unsupported_dtype("bernoulli_", dtype);
  std::lock_guard lock(g.mutex);
  visit_real(dtype, [&]<class T>(Type<T>) { fill_bernoulli(g, static_cast<T*>(out), n, p); });
}

void bernoulli(Generator& g, DType dtype, void* out, int64_t n, DType p_dtype, const void* p) {
  if (n == 0) return;
  if (is_complex(dtype)) throw unsupported_dtype("bernoulli_", dtype);
  if (!is_floating(p_dtype)) throw unsupported_dtype("bernoulli", p_dtype);
  visit_floating(p_dtype, [&]<class P>(Type<P>) {
    const P* probability = static_cast<const P*>(p);
    for (int64_t i = 0; i < n; ++i) {
      const auto value = widen(probability[i]);
      require(value >= 0 && value <= 1,
              "bernoulli expects every probability to be in [0, 1], but element ", i, " is ",
              value);
    }
    std::lock_guard lock(g.mutex);
    visit_real(dtype,
               [&]<class T>(Type<T>) { fill_bernoulli(g, static_cast<T*>(out), n, probability); });
  });
}

}  // namespace adjoint::random
