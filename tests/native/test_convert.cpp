// Conversions between all dtypes: every 16-bit float, special values, strides, fills and scalars.
#include "kernels/convert.h"

#include "drive.h"

using namespace adjoint;
using namespace drive;

namespace {

// One element through a run of `n`, so that vector loops and tails are both asked.
template <class To, class From>
To through(From x, int64_t n) {
  Array<From> in(n);
  Array<To> out(n);
  for (int64_t i = 0; i < n; ++i) in.data[i] = x;
  copy_run(out.bytes(), sizeof(To), dtype_of<To>::value, in.bytes(), sizeof(From),
           dtype_of<From>::value, n);
  for (int64_t i = 1; i < n; ++i) CHECK(same(out.data[i], out.data[0]));
  return out.data[0];
}

template <class To, class From>
To converted(From x) {
  const To one = through<To>(x, 1);
  CHECK(same(one, through<To>(x, 40)));
  return one;
}

// Nearest even by definition: the reference looks at both neighbours in double.
double half_value(uint16_t h) {
  const int exponent = (h >> 10) & 31;
  const double mantissa = h & 1023;
  const double size = exponent == 31  ? (mantissa != 0 ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return h & 0x8000 ? -size : size;
}

void halves() {
  for (int bits = 0; bits < 65536; ++bits) {
    const half_t h{static_cast<uint16_t>(bits)};
    const float f = through<float>(h, bits % 3 ? 1 : 9);
    CHECK(same(static_cast<double>(f), half_value(h.bits)));
    if (std::isnan(f)) continue;
    CHECK(through<half_t>(f, 1).bits == h.bits);
    if ((bits & 0x7fff) >= 0x7bff) continue;
    // Between two neighbours: below, at and above the middle.
    const double next = half_value(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((half_value(h.bits) + next) / 2);
    CHECK(through<half_t>(middle, 8).bits == (bits & 1 ? bits + 1 : bits));
    CHECK(through<half_t>(std::nextafterf(middle, f), 1).bits == bits);
    CHECK(through<half_t>(std::nextafterf(middle, float(next)), 9).bits == bits + 1);
  }
  CHECK(converted<half_t>(65519.99f).bits == 0x7bff && converted<half_t>(65520.f).bits == 0x7c00);
  CHECK(converted<half_t>(-1e30f).bits == 0xfc00 && converted<half_t>(-1e-30f).bits == 0x8000);
  CHECK((converted<half_t>(NAN).bits & 0x7fff) > 0x7c00);
}

void brain_floats() {
  for (int bits = 0; bits < 65536; ++bits) {
    const bfloat16_t b{static_cast<uint16_t>(bits)};
    const float f = through<float>(b, 1);
    if (std::isnan(f)) continue;
    CHECK(through<bfloat16_t>(f, 1).bits == bits);
  }
  auto rounded = [](uint32_t bits) {
    float f;
    std::memcpy(&f, &bits, 4);
    return converted<bfloat16_t>(f).bits;
  };
  CHECK(rounded(0x3f808000) == 0x3f80 && rounded(0x3f818000) == 0x3f82);
  CHECK(rounded(0x3f808001) == 0x3f81 && rounded(0x3f807fff) == 0x3f80);
  CHECK(rounded(0x7f7fffff) == 0x7f80);  // rounds up to infinity
  CHECK((rounded(0x7f800001) & 0x7fff) > 0x7f80 && (rounded(0xffffffff) & 0x7fff) > 0x7f80);
}

void integers() {
  const int32_t int_min = std::numeric_limits<int32_t>::min();
  const int64_t long_min = std::numeric_limits<int64_t>::min();
  CHECK(converted<int32_t>(-1.9f) == -1 && converted<int32_t>(1.9) == 1);
  for (double x : {double(NAN), double(INFINITY), -1e300, 2147483648.0, -2147483649.0}) {
    CHECK(converted<int32_t>(x) == int_min);
    CHECK(converted<int16_t>(x) == 0 && converted<int8_t>(x) == 0);
  }
  CHECK(converted<int64_t>(NAN) == long_min && converted<int64_t>(0x1p63) == long_min);
  CHECK(converted<int64_t>(-0x1p62f) == -(int64_t{1} << 62));
  CHECK(converted<uint8_t>(300.f) == 44 && converted<uint8_t>(-1.f) == 255);
  CHECK(converted<uint8_t>(4294967297.0) == 1);  // by way of int64, unlike the signed ones
  CHECK(converted<int8_t>(int64_t{-129}) == 127 && converted<int16_t>(int32_t{65537}) == 1);
  CHECK(converted<double>(int64_t{1} << 53) == 0x1p53 && converted<float>(true) == 1);
  CHECK(converted<half_t>(int64_t{2049}).bits == 0x6800);  // 2048, the even neighbour
}

void bools_and_complex() {
  using C = complex128_t;
  CHECK(converted<bool>(NAN) && converted<bool>(1e-40f) && !converted<bool>(-0.0));
  CHECK(converted<bool>(int16_t{256}) && converted<bool>(C(0, 1)) && !converted<bool>(C(-0.0, 0)));
  CHECK(converted<bool>(half_t{1}) && !converted<bool>(half_t{0x8000}));
  CHECK(same(converted<C>(2.5f), C(2.5, 0)) && same(converted<float>(C(2.5, 7)), 2.5f));
  CHECK(same(converted<complex64_t>(C(1, -2)), complex64_t(1, -2)));
  CHECK(converted<int8_t>(complex64_t(-3.9f, 5)) == -3);
  CHECK(converted<half_t>(C(1, 5)).bits == 0x3c00);
  CHECK(same(converted<C>(true), C(1, 0)));
  // A bool from outside may hold any byte.
  const uint8_t byte = 7;
  float one = 0;
  copy_run(reinterpret_cast<char*>(&one), 4, DType::Float32, reinterpret_cast<const char*>(&byte),
           1, DType::Bool, 1);
  CHECK(one == 1 && load_int(DType::Bool, &byte) == 1);
}

// Every pair of dtypes and many strides: small whole numbers are exact in all of them, so each
// element's value says where it came from.
void strides() {
  for (int to = 0; to < kDTypes; ++to) {
    for (int from = 0; from < kDTypes; ++from) {
      const auto t = static_cast<DType>(to), f = static_cast<DType>(from);
      const auto out_size = static_cast<int64_t>(item_size(t));
      const auto in_size = static_cast<int64_t>(item_size(f));
      for (int64_t n : {1, 2, 7, 100, 600}) {
        for (int64_t out_step : {1, 2, -1, 3}) {
          for (int64_t in_step : {1, 0, -2, 3}) {
            std::vector<char> in((n * 3 + 1) * in_size), out((n * 3 + 1) * out_size, 0x55);
            const int64_t first_in = in_step < 0 ? n * 3 : 0, first_out = out_step < 0 ? n * 3 : 0;
            for (int64_t i = 0; i <= n * 3; ++i) {
              store_scalar(f, in.data() + i * in_size, i % 101);
            }
            copy_run(out.data() + first_out * out_size, out_step * out_size, t,
                     in.data() + first_in * in_size, in_step * in_size, f, n);
            bool right = true;
            for (int64_t i = 0; i < n; ++i) {
              int64_t want = (first_in + i * in_step) % 101;
              if (t == DType::Bool || f == DType::Bool) want = want != 0;
              right &= load_int(t, out.data() + (first_out + i * out_step) * out_size) == want;
              right &= load_complex(t, out.data() + (first_out + i * out_step) * out_size) ==
                       std::complex<double>(double(want), 0);
            }
            CHECK(right);
          }
        }
      }
    }
  }
}

void fills_and_scalars() {
  for (int d = 0; d < kDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    const size_t size = item_size(dtype);
    for (int64_t value : {0, 1, 3, 100}) {
      alignas(16) char element[16];
      store_scalar(dtype, element, value);
      for (int64_t n : {0, 1, 5, 77}) {
        std::vector<char> out((n + 1) * size, 0x55);
        fill_run(out.data(), dtype, element, n);
        for (int64_t i = 0; i < n; ++i) {
          CHECK(std::memcmp(out.data() + i * size, element, size) == 0);
        }
        CHECK(out[n * size] == 0x55);
      }
      CHECK(load_double(dtype, element) == (d == 0 ? value != 0 : value));
    }
  }
  float f = 0;
  store_scalar(DType::Float32, &f, 0.1);
  CHECK(f == 0.1f && load_double(DType::Float32, &f) == 0.1f);
  complex64_t z;
  store_scalar(DType::Complex64, &z, std::complex<double>(1, 2));
  CHECK(z == complex64_t(1, 2) && load_complex(DType::Complex64, &z) == complex128_t(1, 2));
  CHECK(load_double(DType::Complex64, &z) == 1);
  half_t h{};
  store_scalar(DType::Float16, &h, 1.5);
  CHECK(h.bits == 0x3e00 && load_double(DType::Float16, &h) == 1.5);
}

}  // namespace

int main(int, char** argv) {
  halves();
  brain_floats();
  integers();
  bools_and_complex();
  strides();
  fills_and_scalars();
  return finish("convert", argv);
}
