// Measures the error of every elementwise float kernel in units in the last place, and fails if one
// exceeds its bound, or if NaN, infinities or signed zeros differ from the reference.
//
//   ulp_float                    a sample of inputs (a few seconds), exit code 1 on a miss
//   ulp_float --all exp sin      every float32 there is, and 60 million float64, for the named
//   kernels ulp_float --markdown         the table of docs/reference/accuracy.md on standard output
//
// ADJOINT_ISA=base|v3|v4 selects the instruction set. References are computed in long double, which
// has at least 64 bits of mantissa on the processors the tests run on.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/kernel.h"
#include "ulp_reference.h"

namespace {

using adjoint::DType;
using adjoint::Kernel;

struct Error {
  double worst = 0;
  double at[4] = {};
  double got = 0, expected = 0;
};

template <class T>
double ulps(T got, long double expected) {
  T rounded = static_cast<T>(expected);
  if (std::isnan(got) || std::isnan(expected))
    return std::isnan(got) && std::isnan(expected) ? 0 : 1e30;
  if (std::isinf(got) || std::isinf(rounded)) {
    if (got == rounded) return 0;
    // the reference may be just above the largest number, the result just below, or the reverse
    T top = std::numeric_limits<T>::max();
    bool edge = std::signbit(got) == std::signbit(rounded) && std::fabs(got) >= top &&
                std::fabs(rounded) >= top &&
                std::fabs(expected) < static_cast<long double>(top) * 1.0000001L;
    return edge ? 1 : 1e30;
  }
  if (got == 0 && expected == 0) return std::signbit(got) == std::signbit(expected) ? 0 : 1e30;
  int exponent;
  std::frexp(expected, &exponent);
  int lowest = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
  int ulp_exponent = std::max(exponent - std::numeric_limits<T>::digits, lowest);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - expected) *
                             std::ldexp(1.0L, -ulp_exponent));
}

template <class T>
class Measure {
 public:
  Measure(const Case& c, const Kernel* k)
      : case_(c), loop_(k->loop[static_cast<int>(adjoint::dtype_of<T>::value)]) {
    for (auto& v : in_) v.reserve(kBlock);
  }

  void add(T x, T y = 1) {
    in_[0].push_back(x);
    in_[1].push_back(y);
    if (in_[0].size() == kBlock) flush();
  }

  Error finish() {
    flush();
    return error_;
  }

 private:
  static constexpr size_t kBlock = 4093;  // not a multiple of any vector length

  void flush() {
    size_t n = in_[0].size();
    if (!n) return;
    out_.resize(n);
    char* p[] = {reinterpret_cast<char*>(out_.data()), reinterpret_cast<char*>(in_[0].data()),
                 reinterpret_cast<char*>(in_[1].data())};
    loop_(p, static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) {
      long double expected;
      if (case_.reference2) {
        expected = case_.reference2(in_[0][i], in_[1][i]);
      } else if (sizeof(T) == 4 && case_.quick) {
        expected = case_.quick(in_[0][i]);  // double is enough for float32, and fast enough for all
      } else {
        expected = case_.reference(in_[0][i]);
      }
      if (static_cast<long double>(out_[i]) == expected && expected != 0) continue;
      double e = ulps<T>(out_[i], expected);
      if (!(e <= error_.worst))
        error_ = {e,
                  {static_cast<double>(in_[0][i]), static_cast<double>(in_[1][i])},
                  static_cast<double>(out_[i]),
                  static_cast<double>(expected)};
    }
    in_[0].clear();
    in_[1].clear();
  }

  const Case& case_;
  adjoint::Loop loop_;
  std::vector<T> in_[2], out_;
  Error error_;
};

template <class T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> v = {0,
                      1,
                      T(0.5),
                      2,
                      3,
                      T(1.5),
                      T(2.5),
                      10,
                      20,
                      64,
                      88,
                      89,
                      100,
                      104,
                      127,
                      128,
                      150,
                      700,
                      709,
                      710,
                      711,
                      745,
                      746,
                      1023,
                      1024,
                      1074,
                      1075,
                      T(1e5),
                      T(1e6),
                      T(1e10),
                      T(1e22),
                      T(1e30),
                      L::max(),
                      L::min(),
                      L::denorm_min(),
                      L::min() / 2,
                      L::epsilon(),
                      L::infinity(),
                      L::quiet_NaN(),
                      T(M_PI),
                      T(M_PI_2),
                      T(M_PI_4),
                      T(M_E),
                      T(M_LN2),
                      T(0.6),
                      T(0.65),
                      T(0.25),
                      T(1e-3)};
  size_t n = v.size();
  for (size_t i = 0; i < n; ++i) v.push_back(std::nextafter(v[i], T(0)));
  for (size_t i = 0; i < n; ++i) v.push_back(std::nextafter(v[i], L::infinity()));
  n = v.size();
  for (size_t i = 0; i < n; ++i) v.push_back(-v[i]);
  return v;
}

float number_from(uint32_t b) {
  float f;
  memcpy(&f, &b, 4);
  return f;
}
double number_from(uint64_t b) {
  double f;
  memcpy(&f, &b, 8);
  return f;
}

template <class T>
Error measure(const Case& c, const Kernel* k, int64_t samples, bool every) {
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  Measure<T> m(c, k);
  std::mt19937_64 random(1234);
  std::uniform_real_distribution<double> uniform(c.low, c.high);
  auto special = special_values<T>();
  if (c.reference2) {
    for (T a : special)
      for (T b : special) m.add(a, b);
    for (int64_t i = 0; i < samples; ++i) m.add(T(uniform(random)), T(uniform(random)));
    for (int64_t i = 0; i < samples; ++i)
      m.add(number_from(Word(random())), number_from(Word(random())));
    return m.finish();
  }
  for (T a : special) m.add(c.positive ? std::fabs(a) : a);
  // close to multiples of pi/2, where sin and cos lose digits if the reduction does
  for (int64_t i = 0; i < samples; ++i) {
    T near = T(std::round(std::ldexp(1.0, int(i % 21)) * std::fabs(uniform(random))) * kPiL / 2);
    m.add(near), m.add(std::nextafter(near, T(0)) * (c.positive ? 1 : -1));
  }
  if (every && sizeof(T) == 4) {
    for (uint64_t b = 0; b < (uint64_t(1) << 32); ++b) m.add(number_from(Word(b)));
    return m.finish();
  }
  for (int64_t i = 0; i < samples; ++i) m.add(T(uniform(random)));
  if (sizeof(T) == 4 && samples >= 1000000) {
    for (uint64_t b = 0; b < (uint64_t(1) << 32); b += 257) {
      T a = number_from(Word(b));
      m.add(c.positive ? std::fabs(a) : a);
    }
    return m.finish();
  }
  for (int64_t i = 0; i < samples; ++i) {
    T a = number_from(Word(random()));
    m.add(c.positive ? std::fabs(a) : a);
  }
  return m.finish();
}

template <class T>
bool report(const Case& c, const Kernel* k, double bound, int64_t samples, bool every,
            bool markdown, double* worst) {
  Error e = measure<T>(c, k, samples, every);
  *worst = e.worst;
  bool good = e.worst <= bound;
  if (!markdown || !good)
    std::fprintf(good ? stdout : stderr,
                 "%-10s %s  %8.3f ulp (bound %g) at %a %a (%.17g): got %.17g, expected %.17g%s\n",
                 c.name, sizeof(T) == 4 ? "float32" : "float64", e.worst, bound, e.at[0], e.at[1],
                 e.at[0], e.got, e.expected, good ? "" : "  MISS");
  std::fflush(stdout);
  return good;
}

// Everything in docs/reference/accuracy.md but the rows.
const char* const kPreamble = R"(# Accuracy of the elementwise functions

Largest error seen, in units in the last place (ulp) of the exact result; 0.5 is correct rounding.
NaN, infinities, signed zeros, denormal arguments and results, and overflow and underflow thresholds
are checked against the reference too. The table is written by `tests/native/ulp_float.cpp
--markdown`: uniform samples in the range where the function varies, numbers close to multiples of
pi/2, special values with their neighbours, and for float32 every 257th bit pattern, for float64
random ones. Instruction sets without fused multiply-add differ by a few tenths.

Every float32 of the ranges where these six functions are neither constant nor the identity:

| kernel | range | largest error |
|---|---|---|
| `exp` | 2^-30 <= abs(x) < 2^8 | 0.91 |
| `log` | all positive normal numbers | 0.76 |
| `sin`, `cos` | 2^-16 <= x < 2^16 | 0.93 |
| `tanh` | 2^-20 <= abs(x) < 2^6 | 1.27 |
| `sigmoid` | 2^-30 <= abs(x) < 2^7 | 1.48 |

`ulp_float --all exp` measures a kernel on every float32 there is, in a few minutes.

Relative errors of `lgamma` and `digamma` are unbounded next to their roots at negative arguments;
the table is for positive ones.

| kernel | float32 | float64 |
|---|---|---|
)";

}  // namespace

int main(int argc, char** argv) {
  bool every = false, markdown = false;
  int64_t samples = 40000;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    if (a == "--all")
      every = true, samples = 30000000;
    else if (a == "--markdown")
      markdown = true, samples = 1000000;
    else if (a == "--more")
      samples = 1000000;
    else
      names.push_back(a);
  }
  if (markdown) std::fputs(kPreamble, stdout);
  bool good = true;
  for (const Case& c : kCases) {
    bool wanted = names.empty();
    for (auto& n : names) wanted |= n == c.name;
    if (!wanted) continue;
    const Kernel* k = adjoint::find_kernel(c.name);
    if (!k) {
      std::fprintf(stderr, "%s: no such kernel\n", c.name);
      good = false;
      continue;
    }
    double single = 0, dbl = 0;
    good &= report<float>(c, k, c.bound32, samples, every, markdown, &single);
    good &= report<double>(c, k, c.bound64, samples, every, markdown, &dbl);
    if (markdown) std::printf("| `%s` | %.2f | %.2f |\n", c.name, single, dbl), std::fflush(stdout);
  }
  if (!markdown)
    std::printf("%s: %s\n", adjoint::isa_name(adjoint::active_isa()),
                good ? "all within bounds" : "FAILED");
  return good ? 0 : 1;
}
