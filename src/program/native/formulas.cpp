// Read formulas.h first.
#include "program/native/formulas.h"

#include <array>
#include <deque>
#include <limits>
#include <random>
#include <unordered_map>
#include <utility>

#include "dispatch/elementwise_forward.h"
#include "program/native/functions.h"

namespace adjoint::native {
namespace {

// --- from a lambda to a Formula ------------------------------------------------------------------
// The lambda gets the lanes and its operands; what it returns is one value, or an array of two.
template <class F, class B, int N>
constexpr bool takes = [] {
  return []<size_t... I>(std::index_sequence<I...>) {
    return std::is_invocable_v<F, B&, decltype((void)I, std::declval<typename B::V>())...>;
  }(std::make_index_sequence<N>());
}();

template <class F, class B, class Operand, size_t... I>
auto applied(B& lanes, const Operand& operand, std::index_sequence<I...>) {
  return F{}(lanes, operand(I)...);
}

template <class F, int N>
void write_plain(TextLanes& lanes, const Value* in, std::string* out) {
  auto operand = [&](size_t k) { return TextLanes::V{in[k].name}; };
  auto made = applied<F>(lanes, operand, std::make_index_sequence<N>());
  if constexpr (requires { made.name; }) {
    *out = made.name;
  } else {
    for (size_t k = 0; k < made.size(); ++k) out[k] = made[k].name;
  }
}

template <class T, class F, int N>
void compute_as(bool fused, const char* const* in, char* const* out) {
  NumberLanes<T> lanes(fused);
  auto operand = [&](size_t k) {
    T x;
    std::memcpy(&x, in[k], sizeof x);
    return x;
  };
  auto made = applied<F>(lanes, operand, std::make_index_sequence<N>());
  if constexpr (requires { made.size(); }) {
    for (size_t k = 0; k < made.size(); ++k) std::memcpy(out[k], &made[k], sizeof(T));
  } else {
    std::memcpy(out[0], &made, sizeof made);
  }
}
template <class F, int N>
void compute_plain(DType d, bool fused, const char* const* in, char* const* out) {
  if (d == DType::Float32)
    compute_as<float, F, N>(fused, in, out);
  else
    compute_as<double, F, N>(fused, in, out);
}

std::deque<Formula>& formulas() {
  static std::deque<Formula> all;
  return all;
}

template <class F>
void def(const Kernel& kernel, F, int results = 1) {
  using B = NumberLanes<float>;
  constexpr int n = takes<F, B, 1> ? 1 : takes<F, B, 2> ? 2 : takes<F, B, 3> ? 3 : 4;
  using Made = decltype(applied<F>(
      std::declval<B&>(), [](size_t) { return 0.0f; }, std::make_index_sequence<n>()));
  formulas().push_back({&kernel, results, n, std::is_same_v<Made, bool>, false, false,
                        write_plain<F, n>, compute_plain<F, n>});
}

// Of masks.
template <class F>
void def_masks(const Kernel& kernel, F) {
  auto write = [](TextLanes& lanes, const Value* in, std::string* out) {
    *out = F{}(lanes, TextLanes::M{in[0].name}, TextLanes::M{in[1].name}).name;
  };
  formulas().push_back({&kernel, 1, 2, true, true, false, write, nullptr});
}

// --- arithmetic ----------------------------------------------------------------------------------
void define_arithmetic() {
  def(kernel_named("positive"), [](auto&, auto x) { return x; });
  def(kernel_named("neg"), [](auto& l, auto x) { return l.neg(x); });
  def(kernel_named("abs"), [](auto& l, auto x) { return l.abs(x); });
  def(kernel_named("square"), [](auto& l, auto x) { return l.mul(x, x); });
  def(kernel_named("reciprocal"), [](auto& l, auto x) { return l.div(l.number(1), x); });
  def(kernel_named("sqrt"), [](auto& l, auto x) { return l.sqrt(x); });
  def(kernel_named("rsqrt"), [](auto& l, auto x) { return l.div(l.number(1), l.sqrt(x)); });
  def(kernel_named("floor"), [](auto& l, auto x) { return l.floor(x); });
  def(kernel_named("ceil"), [](auto& l, auto x) { return l.ceil(x); });
  def(kernel_named("trunc"), [](auto& l, auto x) { return l.trunc(x); });
  def(kernel_named("round"), [](auto& l, auto x) { return l.round(x); });
  def(kernel_named("frac"), [](auto& l, auto x) { return l.sub(x, l.trunc(x)); });
  def(kernel_named("cube"), [](auto& l, auto x) { return l.mul(l.mul(x, x), x); });
  def(kernel_named("add"), [](auto& l, auto a, auto b) { return l.add(a, b); });
  def(kernel_named("sub"), [](auto& l, auto a, auto b) { return l.sub(a, b); });
  def(kernel_named("mul"), [](auto& l, auto a, auto b) { return l.mul(a, b); });
  def(kernel_named("div"), [](auto& l, auto a, auto b) { return l.div(a, b); });
  def(kernel_named("add_scaled"),
      [](auto& l, auto a, auto b, auto alpha) { return l.mul_add(alpha, b, a); });
  def(kernel_named("rsub_scaled"),
      [](auto& l, auto a, auto b, auto alpha) { return l.sub_mul(b, alpha, a); });
  def(kernel_named("addcmul"),
      [](auto& l, auto a, auto b, auto c, auto value) { return l.mul_add(l.mul(value, b), c, a); });
  def(kernel_named("addcdiv"), [](auto& l, auto a, auto b, auto c, auto value) {
    return l.add(a, l.div(l.mul(value, b), c));
  });
  def(kernel_named("lerp"), [](auto& l, auto a, auto b, auto w) {
    auto span = l.sub(b, a);
    auto near_a = l.both(l.lt(w, l.number(0.5)), l.gt(w, l.number(-0.5)));
    return l.choose(near_a, l.mul_add(w, span, a), l.sub_mul(b, span, l.sub(l.number(1), w)));
  });
}

// --- gradients -----------------------------------------------------------------------------------
void define_gradients() {
  def(kernel_named("mul_scaled"),
      [](auto& l, auto g, auto x, auto k) { return l.mul(g, l.mul(x, k)); });
  def(kernel_named("neg_mul_div"),
      [](auto& l, auto g, auto x, auto y) { return l.mul(l.neg(g), l.div(x, y)); });
  def(kernel_named("divisor_grad"), [](auto& l, auto g, auto x, auto y) {
    double tiny = 4.0 * (l.narrow ? double(std::numeric_limits<float>::min())
                                  : std::numeric_limits<double>::min());
    auto small = l.both(l.lt(y, l.number(tiny)), l.gt(y, l.number(-tiny)));
    auto scale = l.choose(small, l.number(0x1p60), l.number(1));
    auto r = l.div(l.number(1), l.mul(y, scale));
    return l.mul(l.neg(g), l.mul(l.mul(l.mul(l.mul(x, scale), r), r), scale));
  });
  def(kernel_named("rsqrt_grad"), [](auto& l, auto g, auto y) {
    return l.mul(l.mul(l.number(-0.5), g), l.mul(l.mul(y, y), y));
  });
  def(kernel_named("sqrt_grad"),
      [](auto& l, auto g, auto y) { return l.div(g, l.mul(l.number(2), y)); });
  def(kernel_named("tanh_grad"),
      [](auto& l, auto g, auto y) { return l.mul(g, l.sub_mul(l.number(1), y, y)); });
  def(kernel_named("sigmoid_grad"),
      [](auto& l, auto g, auto y) { return l.mul(l.mul(g, l.sub(l.number(1), y)), y); });
  def(kernel_named("relu_grad"),
      [](auto& l, auto g, auto y) { return l.choose(l.le(y, l.number(0)), l.number(0), g); });
  def(kernel_named("leaky_relu_grad"), [](auto& l, auto g, auto y, auto k) {
    return l.choose(l.gt(y, l.number(0)), g, l.mul(g, k));
  });
  def(kernel_named("clamp_grad"), [](auto& l, auto g, auto x, auto low, auto high) {
    return l.choose(l.both(l.ge(x, low), l.le(x, high)), g, l.number(0));
  });
  def(kernel_named("max_grad"), [](auto& l, auto g, auto x, auto y) {
    auto part = l.choose(l.lt(x, y), l.number(0), g);
    return l.choose(l.eq(x, y), l.mul(g, l.number(0.5)), part);
  });
  def(kernel_named("abs_grad"), [](auto& l, auto g, auto x) {
    auto zero = l.number(0);
    auto kink = l.mul(g, l.choose(l.eq(x, x), zero, x));
    return l.choose(l.gt(x, zero), g, l.choose(l.lt(x, zero), l.neg(g), kink));
  });
}

// --- selections ----------------------------------------------------------------------------------
constexpr auto larger = [](auto& l, auto x, auto low) {
  return l.choose(l.either(l.lt(x, low), l.ne(low, low)), low, x);
};
constexpr auto smaller = [](auto& l, auto x, auto high) {
  return l.choose(l.either(l.gt(x, high), l.ne(high, high)), high, x);
};

void define_selections() {
  def(kernel_named("clamp_min"), larger);
  def(kernel_named("clamp_max"), smaller);
  def(kernel_named("clamp"),
      [](auto& l, auto x, auto low, auto high) { return smaller(l, larger(l, x, low), high); });
  def(kernel_named("maximum"),
      [](auto& l, auto x, auto y) { return l.choose(l.gt(x, y), x, l.choose(l.ne(x, x), x, y)); });
  def(kernel_named("minimum"),
      [](auto& l, auto x, auto y) { return l.choose(l.lt(x, y), x, l.choose(l.ne(x, x), x, y)); });
  def(kernel_named("relu"),
      [](auto& l, auto x) { return l.choose(l.lt(x, l.number(0)), l.number(0), x); });
  def(kernel_named("leaky_relu"),
      [](auto& l, auto x, auto k) { return l.choose(l.gt(x, l.number(0)), x, l.mul(x, k)); });
  def(kernel_named("sign"), [](auto& l, auto x) {
    auto zero = l.number(0);
    return l.choose(l.gt(x, zero), l.number(1), l.choose(l.lt(x, zero), l.number(-1), zero));
  });
  def(kernel_named("lt"), [](auto& l, auto a, auto b) { return l.lt(a, b); });
  def(kernel_named("le"), [](auto& l, auto a, auto b) { return l.le(a, b); });
  def(kernel_named("gt"), [](auto& l, auto a, auto b) { return l.gt(a, b); });
  def(kernel_named("ge"), [](auto& l, auto a, auto b) { return l.ge(a, b); });
  def(kernel_named("eq"), [](auto& l, auto a, auto b) { return l.eq(a, b); });
  def(kernel_named("ne"), [](auto& l, auto a, auto b) { return l.ne(a, b); });
  def(kernel_named("isnan"), [](auto& l, auto x) { return l.ne(x, x); });
  def_masks(kernel_named("logical_and"), [](auto& l, auto a, auto b) { return l.both(a, b); });
  def_masks(kernel_named("logical_or"), [](auto& l, auto a, auto b) { return l.either(a, b); });
  def_masks(kernel_named("logical_xor"), [](auto& l, auto a, auto b) { return l.differ(a, b); });
  auto where = [](TextLanes& lanes, const Value* in, std::string* out) {
    *out = lanes.choose({in[0].name}, {in[1].name}, {in[2].name}).name;
  };
  formulas().push_back({&kernel_named("where"), 1, 3, false, true, true, where, nullptr});
}

// --- functions -----------------------------------------------------------------------------------
void define_functions() {
  def(kernel_named("exp"), [](auto& l, auto x) { return exp(l, x); });
  def(kernel_named("sin"), [](auto& l, auto x) { return sin(l, x); });
  def(kernel_named("cos"), [](auto& l, auto x) { return cos(l, x); });
  def(kernel_named("mul_cos"), [](auto& l, auto g, auto x) { return l.mul(g, cos(l, x)); });
  def(kernel_named("mul_neg_sin"),
      [](auto& l, auto g, auto x) { return l.mul(l.neg(g), sin(l, x)); });
  def(kernel_named("sin"), [](auto& l, auto x) { return sin_and_cos(l, x); }, 2);
}

// --- whether they are right ----------------------------------------------------------------------
// Numbers of all kinds: of every size, of usual ones, special ones.
template <class T>
class Samples {
 public:
  T next() {
    switch (random_() % 8) {
      case 0: {
        constexpr T inf = std::numeric_limits<T>::infinity();
        const T special[] = {0,
                             T(-0.0),
                             1,
                             -1,
                             T(0.5),
                             2,
                             inf,
                             -inf,
                             std::numeric_limits<T>::quiet_NaN(),
                             std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::denorm_min(),
                             std::numeric_limits<T>::max(),
                             T(3),
                             T(100),
                             T(-100),
                             T(1e6)};
        return special[random_() % std::size(special)];
      }
      case 1: {
        typename FloatBits<T>::Int bits;
        uint64_t word = random_();
        std::memcpy(&bits, &word, sizeof bits);
        return std::bit_cast<T>(bits);
      }
      case 2:
        return T(40) * normal_(random_);
      default:
        return T(normal_(random_));
    }
  }

 private:
  std::mt19937_64 random_{20};
  std::normal_distribution<T> normal_;
};

template <class T>
bool same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

// Compares a formula with the kernel's own loop.
template <class T>
bool is_right(const Formula& f, DType d, Loop loop) {
  constexpr int kCount = 256, kRounds = 128;
  Samples<T> samples;
  T in[4][kCount], out[2][kCount];
  uint8_t flags[kCount];
  char* p[6];
  for (int k = 0; k < f.results; ++k)
    p[k] = reinterpret_cast<char*>(f.makes_mask ? (void*)flags : out[k]);
  for (int k = 0; k < f.inputs; ++k) p[f.results + k] = reinterpret_cast<char*>(in[k]);
  for (int round = 0; round < kRounds; ++round) {
    for (int k = 0; k < f.inputs; ++k)
      for (T& x : in[k]) x = samples.next();
    loop(p, kCount);
    for (int n = 0; n < kCount; ++n) {
      const char* one[4];
      T found[2];
      char* to[2] = {reinterpret_cast<char*>(&found[0]), reinterpret_cast<char*>(&found[1])};
      for (int k = 0; k < f.inputs; ++k) one[k] = reinterpret_cast<const char*>(&in[k][n]);
      f.compute(d, fuses_products(), one, to);
      if (f.makes_mask) {
        if (*reinterpret_cast<bool*>(to[0]) != (flags[n] != 0)) return false;
        continue;
      }
      for (int k = 0; k < f.results; ++k)
        if (!same(found[k], out[k][n])) return false;
    }
  }
  return true;
}

struct Entry {
  Known known;
  enum : uint8_t { Unknown, Right, Wrong } state = Unknown;
};

std::unordered_map<Loop, Entry> table_of_loops() {
  define_arithmetic();
  define_gradients();
  define_selections();
  define_functions();
  std::unordered_map<Loop, Entry> table;
  for (const Formula& f : formulas()) {
    for (DType d : {DType::Float32, DType::Float64, DType::Bool}) {
      const bool logical = f.takes_masks && !f.chooses;
      if (logical != (d == DType::Bool)) continue;
      Loop loop = f.results == 2 ? loop_of_sin_and_cos(d) : f.kernel->loop[static_cast<int>(d)];
      if (loop) table.emplace(loop, Entry{{&f, d}});
    }
  }
  return table;
}

}  // namespace

bool fuses_products() {
#if defined(__x86_64__)
  return active_isa() != Isa::Base;
#else
  return false;
#endif
}

Known formula_of(Loop loop) {
  static std::unordered_map<Loop, Entry> table = table_of_loops();  // with the GIL
  auto found = table.find(loop);
  if (found == table.end()) return {};
  Entry& e = found->second;
  if (e.state == Entry::Unknown) {
    const Formula& f = *e.known.formula;
    bool right =
        !f.compute || (e.known.dtype == DType::Float32 ? is_right<float>(f, e.known.dtype, loop)
                                                       : is_right<double>(f, e.known.dtype, loop));
    e.state = right ? Entry::Right : Entry::Wrong;
  }
  return e.state == Entry::Right ? e.known : Known{};
}

}  // namespace adjoint::native
