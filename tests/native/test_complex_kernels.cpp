// Complex kernels against std::complex<long double>, with an error bound relative to the result's
// modulus, and the exact promises: no residue in z * conj(z), IEEE infinities, exact small powers.
#include <algorithm>

#include "drive.h"

using namespace adjoint;
using namespace drive;

namespace {

using Wide = std::complex<long double>;

template <class T>
std::vector<std::complex<T>> numbers(int64_t n) {
  std::uniform_real_distribution<T> part(-3, 3);
  std::vector<std::complex<T>> values(n);
  for (auto& z : values) z = {part(rng), part(rng)};
  if (n > 8) values[3] = {T(0.5), 0}, values[4] = {0, T(-0.25)}, values[5] = {T(1e-3), T(1e-3)};
  return values;
}

template <class T, class Out, class Reference>
void check_type(const char* name, int inputs, double ulps, Reference reference) {
  const auto loop = loop_of(name, dtype_of<std::complex<T>>::value, inputs);
  if (!loop) return;
  for (int64_t n : {1, 3, 8, 9, 500}) {
    std::vector<std::vector<std::complex<T>>> in;
    for (int i = 0; i < inputs; ++i) in.push_back(numbers<T>(n));
    std::vector<Out> out(n);
    char* p[5] = {reinterpret_cast<char*>(out.data())};
    for (int i = 0; i < inputs; ++i) p[i + 1] = reinterpret_cast<char*>(in[i].data());
    loop(p, n);
    double worst = 0;
    for (int64_t i = 0; i < n; ++i) {
      Wide z[4];
      for (int k = 0; k < inputs; ++k) z[k] = Wide(in[k][i].real(), in[k][i].imag());
      const Wide want = reference(z), got(std::real(out[i]), std::imag(out[i]));
      const long double unit = std::abs(want) * std::numeric_limits<T>::epsilon();
      if (got != want) worst = std::max(worst, double(std::abs(got - want) / unit));
    }
    if (!(worst <= ulps)) {
      std::fprintf(stderr, "%s of complex%d: %.1f units\n", name, int(16 * sizeof(T)), worst);
      ++failures;
    }
  }
}

template <class Reference>
void check(const char* name, int inputs, double ulps, Reference reference) {
  check_type<float, std::complex<float>>(name, inputs, ulps, reference);
  check_type<double, std::complex<double>>(name, inputs, ulps, reference);
}

template <class Reference>
void check_real(const char* name, double ulps, Reference reference) {
  check_type<float, float>(name, 1, ulps, reference);
  check_type<double, double>(name, 1, ulps, reference);
}

void arithmetic() {
  check("add", 2, 1, [](Wide* z) { return z[0] + z[1]; });
  check("sub", 2, 1, [](Wide* z) { return z[0] - z[1]; });
  check("mul", 2, 2, [](Wide* z) { return z[0] * z[1]; });
  check("div", 2, 4, [](Wide* z) { return z[0] / z[1]; });
  check("neg", 1, 0, [](Wide* z) { return -z[0]; });
  check("positive", 1, 0, [](Wide* z) { return z[0]; });
  check("conj", 1, 0, [](Wide* z) { return std::conj(z[0]); });
  check("square", 1, 2, [](Wide* z) { return z[0] * z[0]; });
  check("reciprocal", 1, 4, [](Wide* z) { return Wide(1) / z[0]; });
  check("sgn", 1, 3, [](Wide* z) { return z[0] / std::abs(z[0]); });
  check_real("abs", 1, [](Wide* z) { return std::abs(z[0]); });
  check_real("angle", 1, [](Wide* z) { return std::arg(z[0]); });
  check_real("real", 0, [](Wide* z) { return z[0].real(); });
  check_real("imag", 0, [](Wide* z) { return z[0].imag(); });
}

void functions() {
  check("exp", 1, 3, [](Wide* z) { return std::exp(z[0]); });
  check("exp2", 1, 6, [](Wide* z) { return std::pow(Wide(2), z[0]); });
  check("expm1", 1, 6, [](Wide* z) { return std::exp(z[0]) - Wide(1); });
  check("log", 1, 3, [](Wide* z) { return std::log(z[0]); });
  check("log2", 1, 4, [](Wide* z) { return std::log(z[0]) / std::log(2.0L); });
  check("log10", 1, 4, [](Wide* z) { return std::log(z[0]) / std::log(10.0L); });
  check("log1p", 1, 6, [](Wide* z) { return std::log(Wide(1) + z[0]); });
  check("sqrt", 1, 3, [](Wide* z) { return std::sqrt(z[0]); });
  check("rsqrt", 1, 5, [](Wide* z) { return Wide(1) / std::sqrt(z[0]); });
  check("sigmoid", 1, 8, [](Wide* z) { return Wide(1) / (Wide(1) + std::exp(-z[0])); });
  check("sin", 1, 3, [](Wide* z) { return std::sin(z[0]); });
  check("cos", 1, 3, [](Wide* z) { return std::cos(z[0]); });
  check("tan", 1, 4, [](Wide* z) { return std::tan(z[0]); });
  check("asin", 1, 4, [](Wide* z) { return std::asin(z[0]); });
  check("acos", 1, 4, [](Wide* z) { return std::acos(z[0]); });
  check("atan", 1, 4, [](Wide* z) { return std::atan(z[0]); });
  check("sinh", 1, 3, [](Wide* z) { return std::sinh(z[0]); });
  check("cosh", 1, 3, [](Wide* z) { return std::cosh(z[0]); });
  check("tanh", 1, 4, [](Wide* z) { return std::tanh(z[0]); });
  check("asinh", 1, 4, [](Wide* z) { return std::asinh(z[0]); });
  check("acosh", 1, 4, [](Wide* z) { return std::acosh(z[0]); });
  check("atanh", 1, 4, [](Wide* z) { return std::atanh(z[0]); });
  check("pow", 2, 40, [](Wide* z) { return std::pow(z[0], z[1]); });
}

template <class... In>
complex128_t one(const char* name, In... in) {
  complex128_t values[] = {in...}, out;
  char* p[5] = {reinterpret_cast<char*>(&out)};
  for (size_t i = 0; i < sizeof...(In); ++i) p[i + 1] = reinterpret_cast<char*>(&values[i]);
  const auto loop = loop_of(name, DType::Complex128, sizeof...(In));
  if (loop) loop(p, 1);
  return out;
}

void promises() {
  using C = complex128_t;
  for (int64_t n : {1, 100}) {  // one through the scalar loop, one through vectors
    auto z = numbers<double>(n);
    std::vector<C> conj(n), out(n);
    for (int64_t i = 0; i < n; ++i) conj[i] = std::conj(z[i]);
    char* p[] = {reinterpret_cast<char*>(out.data()), reinterpret_cast<char*>(z.data()),
                 reinterpret_cast<char*>(conj.data())};
    loop_of("mul", DType::Complex128, 2)(p, n);
    for (C product : out) CHECK(product.imag() == 0);
  }
  CHECK(one("pow", C(0, 1), C(2, 0)) == C(-1, 0) && one("pow", C(0, 0), C(0, 0)) == C(1, 0));
  CHECK(one("pow", C(0, 0), C(0.5, 0)) == C(0, 0) && one("pow", C(2, 0), C(-2, 0)) == C(0.25, 0));
  CHECK(one("div", C(1e300, 1e300), C(1e300, 1e300)) == C(1, 0));
  CHECK(std::isinf(one("div", C(1, 0), C(0, 0)).real()));
  CHECK(std::isnan(one("div", C(0, 0), C(0, 0)).real()));
  CHECK(one("reciprocal", C(INFINITY, 1)) == C(0, 0));
  CHECK(one("sgn", C(0, 0)) == C(0, 0));
  CHECK(one("sigmoid", C(-1000, 1)) == C(0, 0) && one("sigmoid", C(1000, 1)) == C(1, 0));
  CHECK(std::abs(one("expm1", C(1e-20, 1e-20)) - C(1e-20, 1e-20)) < 1e-35);
  CHECK(std::abs(one("log1p", C(1e-20, 1e-20)) - C(1e-20, 1e-20)) < 1e-35);
  CHECK(same(one("sqrt", C(-1, -0.0)), C(0, -1)) && same(one("sqrt", C(-1, 0.0)), C(0, 1)));
  CHECK(one("addcmul", C(1, 1), C(0, 1), C(0, 1), C(2, 0)) == C(-1, 1));
  CHECK(one("addcdiv", C(1, 1), C(0, 4), C(0, 2), C(2, 0)) == C(5, 1));
  CHECK(one("add_scaled", C(1, 1), C(0, 1), C(0, 1)) == C(0, 1));
  CHECK(one("rsub_scaled", C(1, 1), C(0, 1), C(2, 0)) == C(-2, -1));
  CHECK(one("lerp", C(0.1, 0), C(1e20, 1), C(0, 0)) == C(0.1, 0));
  CHECK(one("lerp", C(1e20, 1), C(0.1, 3), C(1, 0)) == C(0.1, 3));
}

void predicates() {
  using C = complex64_t;
  C z[] = {{1, 2}, {NAN, 0}, {0, -INFINITY}, {NAN, INFINITY}, {0, 0}};
  C w[] = {{1, 2}, {NAN, 0}, {0, INFINITY}, {0, 0}, {-0.0f, 0}};
  auto bits = [&](const char* name, int inputs) {
    uint8_t out[5];
    char* p[] = {reinterpret_cast<char*>(out), reinterpret_cast<char*>(z),
                 reinterpret_cast<char*>(w)};
    const auto loop = loop_of(name, DType::Complex64, inputs);
    if (loop) loop(p, 5);
    return out[0] << 4 | out[1] << 3 | out[2] << 2 | out[3] << 1 | out[4];
  };
  CHECK(bits("isnan", 1) == 0b01010 && bits("isinf", 1) == 0b00110);
  CHECK(bits("isfinite", 1) == 0b10001 && bits("logical_not", 1) == 0b00001);
  CHECK(bits("eq", 2) == 0b10001 && bits("ne", 2) == 0b01110);
  CHECK(bits("logical_and", 2) == 0b11100 && bits("logical_or", 2) == 0b11110);
  CHECK(bits("logical_xor", 2) == 0b00010);
  float length[5];
  char* p[] = {reinterpret_cast<char*>(length), reinterpret_cast<char*>(z)};
  loop_of("abs", DType::Complex64, 1)(p, 5);
  CHECK(std::isnan(length[1]) && std::isinf(length[2]) && std::isinf(length[3]) && length[4] == 0);
  compare<float, float>("angle", [](float x) { return std::isnan(x) ? x : x < 0 ? M_PIf32 : 0.f; });
}

void selection() {
  for (int64_t n : {1, 7, 8, 50}) {
    auto a = numbers<float>(n), b = numbers<float>(n);
    auto c = numbers<double>(n), d = numbers<double>(n);
    std::vector<uint8_t> mask(n);
    for (auto& m : mask) m = rng() & 1;
    std::vector<complex64_t> out(n);
    std::vector<complex128_t> wide(n);
    char* p[] = {reinterpret_cast<char*>(out.data()), reinterpret_cast<char*>(mask.data()),
                 reinterpret_cast<char*>(a.data()), reinterpret_cast<char*>(b.data())};
    loop_of("where", DType::Complex64, 3)(p, n);
    char* q[] = {reinterpret_cast<char*>(wide.data()), reinterpret_cast<char*>(mask.data()),
                 reinterpret_cast<char*>(c.data()), reinterpret_cast<char*>(d.data())};
    loop_of("where", DType::Complex128, 3)(q, n);
    for (int64_t i = 0; i < n; ++i) {
      CHECK(out[i] == (mask[i] ? a[i] : b[i]) && wide[i] == (mask[i] ? c[i] : d[i]));
    }
  }
}

}  // namespace

int main(int, char** argv) {
  arithmetic();
  functions();
  promises();
  predicates();
  selection();
  return finish("complex kernels", argv);
}
