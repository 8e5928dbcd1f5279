// Drives kernels by name against a plain reference, at sizes around the vector widths, into fresh
// memory and in place, and under every instruction set this processor has.
#pragma once
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <unistd.h>

#include "kernels/kernel.h"
#include "check.h"

namespace drive {

using adjoint::DType;
using adjoint::dtype_of;
using adjoint::Kernel;

inline std::mt19937_64 rng(7);  // NOLINT: a fixed seed, so that a failure can be repeated

// Same bits, except that any NaN equals any other.
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  } else {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
}
template <class T>
bool same(std::complex<T> a, std::complex<T> b) {
  return same(a.real(), b.real()) && same(a.imag(), b.imag());
}

// Half of the time a special value, half of the time one from the whole range.
template <class T>
T draw_one() {
  const uint64_t r = rng();
  if constexpr (std::is_floating_point_v<T>) {
    constexpr double special[] = {0.0, -0.0,  1.0, -1.0,   0.5,   -0.5, INFINITY, -INFINITY,
                                  NAN, 1e-40, 3.0, -1e300, 1e300, 2.25, 1e9,      -1e19};
    return static_cast<T>(r & 1 ? special[(r >> 1) & 15]
                                : std::ldexp(double(r >> 12) - 0x1p51, -int(r >> 1 & 63)));
  } else if constexpr (std::is_same_v<T, bool>) {
    return r & 1;
  } else {
    using Limits = std::numeric_limits<T>;
    const T special[] = {0, 1, 2, 3, T(-1), T(-2), Limits::min(), Limits::max()};
    return r & 1 ? special[(r >> 1) & 7] : T(r >> 8 >> (r >> 1 & 31));
  }
}

template <class T>
std::vector<T> draw(int64_t count) {
  std::vector<T> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = draw_one<T>();
  return values;
}

// std::vector<bool> has no memory of bools.
template <class T>
struct Array {
  explicit Array(int64_t n) : size(n), data(new T[n > 0 ? n : 1]()) {}
  explicit Array(const std::vector<T>& v) : Array(static_cast<int64_t>(v.size())) {
    for (int64_t i = 0; i < size; ++i) data[i] = v[i];
  }
  char* bytes() { return reinterpret_cast<char*>(data.get()); }
  int64_t size;
  std::unique_ptr<T[]> data;
};

inline adjoint::Loop loop_of(const char* name, DType dtype, int inputs) {
  const Kernel* kernel = adjoint::find_kernel(name);
  if (!kernel || !kernel->loop[static_cast<int>(dtype)]) {
    std::fprintf(stderr, "no kernel %s for %s\n", name, adjoint::name_of(dtype));
    ++failures;
    return nullptr;
  }
  CHECK(kernel->inputs == inputs);
  return kernel->loop[static_cast<int>(dtype)];
}

template <class Out, class... In, class Reference>
void compare_at(const char* name, DType dtype, int64_t n, Reference reference) {
  const adjoint::Loop loop = loop_of(name, dtype, sizeof...(In));
  if (!loop) return;
  std::tuple<Array<In>...> in{Array<In>(draw<In>(n))...};
  std::apply(
      [&](auto&... a) {
        Array<Out> out(n);
        char* p[] = {out.bytes(), a.bytes()...};
        loop(p, n);
        for (int64_t i = 0; i < n; ++i) {
          if (same(out.data[i], static_cast<Out>(reference(a.data[i]...)))) continue;
          std::fprintf(stderr, "%s of %s, n=%lld, i=%lld:", name, adjoint::name_of(dtype),
                       static_cast<long long>(n), static_cast<long long>(i));
          (std::fprintf(stderr, " %.9g", static_cast<double>(a.data[i])), ...);
          std::fprintf(stderr, " -> %.9g\n", static_cast<double>(out.data[i]));
          ++failures;
        }
        // In place: the last operand's memory, where it has the output's type.
        using Last = std::tuple_element_t<sizeof...(In) - 1, std::tuple<In...>>;
        if constexpr (std::is_same_v<Last, Out>) {
          p[0] = p[sizeof...(In)];
          loop(p, n);
          CHECK(n == 0 || std::memcmp(p[0], out.bytes(), n * sizeof(Out)) == 0);
        }
      },
      in);
}

template <class Out, class... In, class Reference>
void compare(const char* name, Reference reference) {
  using Last = std::tuple_element_t<sizeof...(In) - 1, std::tuple<In...>>;
  for (int64_t n : {0, 1, 2, 3, 7, 8, 9, 15, 17, 33, 64, 1001}) {
    compare_at<Out, In...>(name, dtype_of<Last>::value, n, reference);
  }
}

template <class... T, class Reference>
void unary(const char* name, Reference reference) {
  (compare<T, T>(name, reference), ...);
}
template <class... T, class Reference>
void binary(const char* name, Reference reference) {
  (compare<T, T, T>(name, reference), ...);
}
template <class... T, class Reference>
void ternary(const char* name, Reference reference) {
  (compare<T, T, T, T>(name, reference), ...);
}

// Runs the program again for the next weaker instruction set; the answer for main to return.
inline int finish(const char* name, char** argv) {
  const std::string isa = adjoint::isa_name(adjoint::active_isa());
  if (report((std::string(name) + " (" + isa + ")").c_str()) != 0) return 1;
  std::fflush(stdout);
  if (isa == "base") return 0;
  setenv("ADJOINT_ISA", isa == "v4" ? "v3" : "base", 1);
  execv("/proc/self/exe", argv);
  return 1;
}

}  // namespace drive
