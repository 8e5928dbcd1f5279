// The plain kernels of real and integer dtypes against references in wider types: arithmetic,
// division, bits, comparisons, clamping, selection; with special values, in place, at odd sizes.
#include <algorithm>
#include <numeric>

#include "kernels/elementwise/faults.h"
#include "drive.h"

using namespace adjoint;
using namespace drive;

namespace {

#define INTS uint8_t, int8_t, int16_t, int32_t, int64_t
#define REALS bool, INTS, float, double

__extension__ using Big = __int128;  // every operation of 64-bit integers is exact in it

template <class T>
auto wide(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<Big>(x);
  else
    return x;
}

void arithmetic() {
  binary<INTS, float, double>("add", [](auto a, auto b) { return decltype(a)(wide(a) + wide(b)); });
  binary<INTS, float, double>("sub", [](auto a, auto b) { return decltype(a)(wide(a) - wide(b)); });
  binary<INTS, float, double>("mul", [](auto a, auto b) { return decltype(a)(wide(a) * wide(b)); });
  binary<float, double>("div", [](auto a, auto b) { return a / b; });
  binary<bool>("add", [](bool a, bool b) { return a || b; });
  binary<bool>("mul", [](bool a, bool b) { return a && b; });
  binary<bool>("maximum", [](bool a, bool b) { return a || b; });
  binary<bool>("minimum", [](bool a, bool b) { return a && b; });
  unary<INTS>("neg", [](auto a) { return decltype(a)(-wide(a)); });
  unary<INTS>("abs", [](auto a) { return decltype(a)(a < 0 ? -wide(a) : wide(a)); });
  unary<INTS>("sign", [](auto a) { return a == 0 ? 0 : a > 0 ? 1 : -1; });
  unary<INTS>("square", [](auto a) { return decltype(a)(wide(a) * wide(a)); });
  unary<INTS>("positive", [](auto a) { return a; });
  unary<bool>("sign", [](bool a) { return a; });
  binary<INTS>("maximum", [](auto a, auto b) { return std::max(a, b); });
  binary<INTS>("minimum", [](auto a, auto b) { return std::min(a, b); });
  // One multiplication of 64-bit numbers at a time stays inside 128 bits.
  ternary<INTS>("add_scaled", [](auto a, auto b, auto c) {
    return decltype(a)(wide(a) + wide(decltype(a)(wide(b) * wide(c))));
  });
  ternary<INTS>("rsub_scaled", [](auto a, auto b, auto c) {
    return decltype(a)(wide(b) - wide(decltype(a)(wide(a) * wide(c))));
  });
  ternary<bool>("add_scaled", [](bool a, bool b, bool c) { return a || (b && c); });
}

// The exact value of weight 0 and 1, and values that need no rounding, fused or not.
void fused() {
  auto run = [](const char* name, std::vector<std::vector<double>> in) {
    const auto loop = loop_of(name, DType::Float64, static_cast<int>(in.size()));
    double out = 0;
    char* p[5] = {reinterpret_cast<char*>(&out)};
    for (size_t i = 0; i < in.size(); ++i) p[i + 1] = reinterpret_cast<char*>(in[i].data());
    if (loop) loop(p, 1);
    return out;
  };
  CHECK(run("addcmul", {{1}, {2}, {3}, {10}}) == 61);
  CHECK(run("addcdiv", {{1}, {6}, {3}, {10}}) == 21);
  CHECK(run("add_scaled", {{1}, {2}, {3}}) == 7);
  CHECK(run("rsub_scaled", {{1}, {2}, {3}}) == -1);
  CHECK(run("lerp", {{0.1}, {1e20}, {0}}) == 0.1);
  CHECK(run("lerp", {{1e20}, {0.1}, {1}}) == 0.1);
  CHECK(run("lerp", {{1}, {3}, {0.25}}) == 1.5);
  CHECK(run("lerp", {{1}, {3}, {-1}}) == -1);
  CHECK(run("lerp", {{1}, {3}, {2}}) == 5);
}

template <class T>
T floored(T a, T b) {
  const Big q = wide(a) / b, r = wide(a) % b;
  return T(q - (r != 0 && (r < 0) != (b < 0)));
}

void division() {
  // The reference of a zero divisor is whatever the kernel says: only the flag is promised.
  auto faulty = [](auto b) { return b == 0; };
  auto check = [&](const char* name, auto reference) {
    auto each = [&](auto zero) {
      using T = decltype(zero);
      const auto loop = loop_of(name, dtype_of<T>::value, 2);
      for (int64_t n : {0, 1, 3, 8, 33, 20000}) {
        auto a = draw<T>(n), b = draw<T>(n);
        std::vector<T> out(n);
        char* p[] = {reinterpret_cast<char*>(out.data()), reinterpret_cast<char*>(a.data()),
                     reinterpret_cast<char*>(b.data())};
        loop(p, n);
        CHECK(take_integer_fault() == std::any_of(b.begin(), b.end(), faulty));
        CHECK(!take_integer_fault());
        for (int64_t i = 0; i < n; ++i) CHECK(b[i] == 0 || out[i] == reference(a[i], b[i]));
      }
    };
    each(uint8_t{}), each(int8_t{}), each(int16_t{}), each(int32_t{}), each(int64_t{});
  };
  check("trunc_divide", [](auto a, auto b) { return decltype(a)(wide(a) / b); });
  check("fmod", [](auto a, auto b) { return decltype(a)(wide(a) % b); });
  check("floor_divide", [](auto a, auto b) { return floored(a, b); });
  check("remainder", [](auto a, auto b) { return decltype(a)(a - wide(floored(a, b)) * b); });
}

void number_theory() {
  binary<INTS>("pow", [](auto a, auto b) {
    using T = decltype(a);
    if (b < 0) return T(a == 1 ? 1 : a == T(-1) ? (b & 1 ? -1 : 1) : 0);
    T result = 1;  // by repeated multiplication, the period of the powers being at most 2^width
    uint64_t k = static_cast<uint64_t>(b);
    T base = a;
    for (; k; k /= 2, base = T(wide(base) * base)) {
      if (k % 2) result = T(wide(result) * base);
    }
    return result;
  });
  binary<INTS>("gcd", [](auto a, auto b) {
    Big x = a < 0 ? -wide(a) : wide(a), y = b < 0 ? -wide(b) : wide(b);
    while (y != 0) std::swap(x %= y, y);
    return decltype(a)(x);
  });
  binary<uint8_t>("lcm", [](auto a, auto b) { return uint8_t(std::lcm<int>(a, b)); });
  binary<int8_t>("lcm", [](auto a, auto b) { return int8_t(std::lcm<int>(a, b)); });
}

void bits() {
  binary<bool, INTS>("bitwise_and", [](auto a, auto b) { return a & b; });
  binary<bool, INTS>("bitwise_or", [](auto a, auto b) { return a | b; });
  binary<bool, INTS>("bitwise_xor", [](auto a, auto b) { return a ^ b; });
  unary<INTS>("bitwise_not", [](auto a) { return decltype(a)(-1 - wide(a)); });
  unary<bool>("bitwise_not", [](bool a) { return !a; });
  binary<INTS>("bitwise_left_shift", [](auto a, auto b) {
    return b < 0 || b >= int(8 * sizeof a) ? decltype(a)(0)
                                           : decltype(a)(static_cast<uint64_t>(a) << b);
  });
  binary<INTS>("bitwise_right_shift", [](auto a, auto b) {
    return b < 0 || b >= int(8 * sizeof a) ? decltype(a)(a < 0 ? -1 : 0) : decltype(a)(a >> b);
  });
}

template <class... T, class Reference>
void predicate(const char* name, Reference reference) {
  (compare<bool, T, T>(name, reference), ...);
}

void comparisons() {
  predicate<REALS>("eq", [](auto a, auto b) { return a == b; });
  predicate<REALS>("ne", [](auto a, auto b) { return a != b; });
  predicate<REALS>("lt", [](auto a, auto b) { return a < b; });
  predicate<REALS>("le", [](auto a, auto b) { return a <= b; });
  predicate<REALS>("gt", [](auto a, auto b) { return a > b; });
  predicate<REALS>("ge", [](auto a, auto b) { return a >= b; });
  predicate<REALS>("logical_and", [](auto a, auto b) { return a != 0 && b != 0; });
  predicate<REALS>("logical_or", [](auto a, auto b) { return a != 0 || b != 0; });
  predicate<REALS>("logical_xor", [](auto a, auto b) { return (a != 0) != (b != 0); });
  auto negation = [](auto a) { return a == 0; };
  compare<bool, bool>("logical_not", negation);
  compare<bool, int16_t>("logical_not", negation);
  compare<bool, float>("logical_not", negation);
  compare<bool, double>("logical_not", negation);
}

template <class T>
T clamped(T x, T low, T high) {
  if (x != x) return x;
  if (low != low) return low;
  if (high != high) return high;
  return std::min(std::max(x, low), high);
}

void bounds() {
  ternary<INTS, float, double>("clamp", [](auto x, auto a, auto b) { return clamped(x, a, b); });
  binary<INTS, float, double>("clamp_min",
                              [](auto x, auto a) { return clamped(x, a, std::max(x, a)); });
  binary<INTS, float, double>("clamp_max",
                              [](auto x, auto a) { return clamped(x, std::min(x, a), a); });
  auto replaced = [](auto x, auto nan, auto high, auto low) {
    return std::isnan(x) ? nan : std::isfinite(x) ? x : x > 0 ? high : low;
  };
  compare<float, float, float, float, float>("nan_to_num", replaced);
  compare<double, double, double, double, double>("nan_to_num", replaced);
}

void selection() {
  auto choice = [](bool c, auto a, auto b) { return c ? a : b; };
  auto each = [&](auto zero) {
    using T = decltype(zero);
    compare<T, bool, T, T>("where", choice);
  };
  each(bool{}), each(uint8_t{}), each(int8_t{}), each(int16_t{}), each(int32_t{});
  each(int64_t{}), each(float{}), each(double{});
  // A condition from outside may hold any byte.
  uint8_t condition[] = {0, 1, 2, 255};
  int32_t a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, out[4];
  char* p[] = {reinterpret_cast<char*>(out), reinterpret_cast<char*>(condition),
               reinterpret_cast<char*>(a), reinterpret_cast<char*>(b)};
  loop_of("where", DType::Int32, 3)(p, 4);
  CHECK(out[0] == 5 && out[1] == 2 && out[2] == 3 && out[3] == 4);
}

}  // namespace

int main(int, char** argv) {
  arithmetic();
  fused();
  division();
  number_theory();
  bits();
  comparisons();
  bounds();
  selection();
  return finish("kernels", argv);
}
