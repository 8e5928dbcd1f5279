// The random streams, against values recorded from PyTorch 2.13 on x86-64 Linux.
// Integers, uniforms and float32 normals are compared exactly; what goes through libm (float64
// normals, exponential and their kin) to 2 ULP, since the last bit is the C library's.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "random/distributions.h"

#include "check.h"

namespace r = adjoint::random;
using adjoint::DType;

namespace {

void expect(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

template <class T>
bool near(T got, T want, int ulps) {
  for (int i = 0; i < ulps && got != want; ++i) got = std::nextafter(got, want);
  return got == want;
}

template <class T>
void expect_values(const char* what, const std::vector<T>& got, const std::vector<T>& want,
                   int ulps = 0) {
  bool ok = got.size() == want.size();
  for (size_t i = 0; ok && i < want.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      ok = near(got[i], want[i], ulps);
    } else {
      ok = got[i] == want[i];
    }
    if (!ok)
      std::fprintf(stderr, "element %zu: got %.17g, want %.17g\n", i, double(got[i]),
                   double(want[i]));
  }
  expect(ok, what);
}

template <class F>
void expect_refused(const char* what, F f) {
  r::Generator before(1), g(1);
  try {
    f(g);
    expect(false, what);
  } catch (const std::runtime_error& error) {
    expect(std::strlen(error.what()) > 10, what);
  }
  expect(g.get_state() == before.get_state(), "a refused call draws nothing");
}

template <class T>
std::vector<T> normal(r::Generator& g, DType dtype, int n, bool contiguous = true) {
  std::vector<T> out(n);
  r::normal(g, dtype, out.data(), n, 0, 1, contiguous);
  return out;
}

template <class T>
std::vector<T> uniform(r::Generator& g, DType dtype, int n, double from = 0, double to = 1) {
  std::vector<T> out(n);
  r::uniform(g, dtype, out.data(), n, from, to);
  return out;
}

template <class T>
std::vector<T> integers(r::Generator& g, DType dtype, int n, int64_t low, int64_t high) {
  std::vector<T> out(n);
  r::random_from_to(g, dtype, out.data(), n, low, high);
  return out;
}

void normals() {
  r::Generator g(0);
  expect_values<float>("randn(3)", normal<float>(g, DType::Float32, 3),
                       {0x1.8a7eb8p+0f, -0x1.2c78ap-2f, -0x1.16e292p+1f}, 2);
  g.manual_seed(1);
  expect_values<float>(
      "randn(20): the last 16 are made anew", normal<float>(g, DType::Float32, 20),
      {-0x1.868d74p+0f, -0x1.801e62p-1f, -0x1.4ed696p-1f, -0x1.9c0732p+0f, 0x1.bb3c08p-1f,
       0x1.f48a08p-3f,  -0x1.53691ep-1f, 0x1.9d5782p-1f,  0x1.c1ae54p-2f,  0x1.2bd3dp+0f,
       0x1.c4761ep+0f,  -0x1.869a2ep-4f, 0x1.f4fbecp-5f,  -0x1.3c49p-1f,   -0x1.989c9cp-1f,
       -0x1.0d9078p-3f, -0x1.98cd1ap-1f, 0x1.57c9bep-2f,  0x1.19f108p-2f,  0x1.b75f9cp+0f});
  g.manual_seed(1);
  expect_values<double>(
      "randn(18, dtype=float64)", normal<double>(g, DType::Float64, 18),
      {-0x1.3ec2b05b54971p-2, -0x1.6d124df02c168p-1, 0x1.25d654b7b0adcp-1, 0x1.91d911bed3c78p+0,
       0x1.bf34427c542acp-1, -0x1.da326c6448723p+1, -0x1.d06c655b7adc3p+0, -0x1.d7b2c0598141dp+0,
       0x1.818c389b97035p-4, 0x1.061d69c9614efp-1, 0x1.0d640b68ad8acp+0, -0x1.403bfa0ff88f6p-3,
       -0x1.0cedbec231a3ep+1, 0x1.9469e9fae1e41p+0, 0x1.1556e77117ceep+0, 0x1.c7836b0b2366fp-1,
       -0x1.edb7a381131e9p+0, -0x1.15831be0eb6d7p-2},
      2);
  g.manual_seed(2);
  expect_values<int16_t>(
      "randn(20, dtype=bfloat16), as bits", normal<int16_t>(g, DType::BFloat16, 20),
      {-16507, 16235, -16473, -16498, -16447, -16661, -16551, 16135, 15605, -17076,
       16264,  16227, 16110,  -16641, 15876,  16433,  15888,  16271, 16033, 16352});
  g.manual_seed(2);
  expect_values<int16_t>(
      "randn(20, dtype=float16), as bits", normal<int16_t>(g, DType::Float16, 20),
      {-17366, 15189, -17097, -17296, -16889, -18602, -17719, 14390, 10153, -21919,
       15427,  15127, 14189,  -18438, 12320,  16775,  12415,  15482, 13579, 16131});
  g.manual_seed(11);
  auto strided = normal<float>(g, DType::Float32, 20, /*contiguous=*/false);
  strided.resize(3);
  expect_values<float>("empty(40)[::2].normal_()", strided,
                       {0x1.79aa92p-1f, 0x1.f2286ap+0f, -0x1.662a52p-1f}, 2);
  g.manual_seed(12);
  std::vector<float> parts(4);
  r::normal(g, DType::Complex64, parts.data(), 2, 0, 1);
  expect_values<float>("randn(2, dtype=complex64)", parts,
                       {-0x1.35a2bp-3f, -0x1.f2e03p-1f, -0x1.3c616ep-5f, 0x1.46f43cp-2f}, 2);
}

void uniforms() {
  r::Generator g(3);
  expect_values<float>("rand(4)", uniform<float>(g, DType::Float32, 4),
                       {0x1.176ap-8f, 0x1.b0698p-4f, 0x1.24b3e4p-2f, 0x1.b9a0cp-6f});
  expect_values<double>("float64 uniform_(-2, 5)", uniform<double>(g, DType::Float64, 3, -2, 5),
                        {0x1.b4882365aee9ep+1, -0x1.8d0fc03cb4a6dp-1, 0x1.a4cfb83cdc281p+1});
  g.manual_seed(3);
  expect_values<float>("uniform_(-0.3, 0.7)", uniform<float>(g, DType::Float32, 4, -0.3, 0.7),
                       {-0x1.2ed58cp-2f, -0x1.8e31a8p-3f, -0x1.cfeap-7f, -0x1.179928p-2f});
}

void whole_numbers() {
  r::Generator g(4);
  expect_values<int64_t>("randint(0, 100)", integers<int64_t>(g, DType::Int64, 6, 0, 100),
                         {30, 94, 31, 73, 89, 76});
  expect_values<int64_t>("randint(-5, 2**40)",
                         integers<int64_t>(g, DType::Int64, 2, -5, int64_t{1} << 40),
                         {376217979613, 217256319421});
  g.manual_seed(4);
  std::vector<uint8_t> bytes(5);
  r::random_full(g, DType::UInt8, bytes.data(), 5);
  expect_values<uint8_t>("uint8 random_()", bytes, {122, 174, 183, 197, 129});
  std::vector<int64_t> longs(2);
  r::random_full(g, DType::Int64, longs.data(), 2);
  expect_values<int64_t>("int64 random_()", longs, {6560048560383864407, 2011351776331979570});
  std::vector<float> floats(2);
  r::random_full(g, DType::Float32, floats.data(), 2);
  expect_values<float>("float32 random_()", floats, {16347377.0f, 5350403.0f});
  g.manual_seed(4);
  r::random_from_to(g, DType::Int64, longs.data(), 2, std::numeric_limits<int64_t>::lowest(), {});
  expect_values<int64_t>("random_(-2**63, None)", longs,
                         {-608192130026889042, -8352090748493643067});
  g.manual_seed(5);
  std::vector<int64_t> order(12);
  r::randperm(g, DType::Int64, order.data(), 12);
  expect_values<int64_t>("randperm(12)", order, {11, 0, 9, 6, 10, 3, 4, 5, 8, 7, 1, 2});
  g.manual_seed(uint64_t(-1));
  expect(g.initial_seed() == 18446744073709551615u, "a negative seed is remembered modulo 2**64");
  expect_values<int64_t>("manual_seed(-1)", integers<int64_t>(g, DType::Int64, 2, 0, 1000),
                         {371, 978});
}

void bernoullis() {
  r::Generator g(6);
  std::vector<float> mask(12);
  r::bernoulli(g, DType::Float32, mask.data(), 12, 0.3);
  expect_values<float>("bernoulli_(0.3)", mask, {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  std::vector<float> p(8);
  std::vector<double> p64(8);
  for (int i = 0; i < 8; ++i) p64[i] = p[i] = static_cast<float>(i) / 7;
  std::vector<uint8_t> got(8);
  r::bernoulli(g, DType::UInt8, got.data(), 8, DType::Float32, p.data());
  expect_values<uint8_t>("bernoulli of float32", got, {0, 0, 1, 0, 1, 1, 1, 1});
  r::bernoulli(g, DType::UInt8, got.data(), 8, DType::Float64, p64.data());
  expect_values<uint8_t>("bernoulli of float64", got, {0, 0, 0, 1, 1, 0, 1, 1});
}

void through_logarithms() {
  r::Generator g(7);
  std::vector<float> x(3);
  r::exponential(g, DType::Float32, x.data(), 3, 2);
  expect_values<float>("exponential_(2)", x, {0x1.4f81e4p-3f, 0x1.477552p-3f, 0x1.fb2e5p-1f}, 2);
  std::vector<int32_t> trials(6);
  r::geometric(g, DType::Int32, trials.data(), 6, 0.2);
  expect_values<int32_t>("geometric_(0.2)", trials, {2, 1, 1, 6, 3, 2});
  std::vector<double> y(2);
  r::cauchy(g, DType::Float64, y.data(), 2, 1, 2);
  expect_values<double>("cauchy_(1, 2)", y, {0x1.8f82f26801894p+1, -0x1.1f04ee331bb9cp+3}, 2);
  r::log_normal(g, DType::Float32, x.data(), 3, 0.5, 0.25);
  expect_values<float>("log_normal_(0.5, 0.25)", x,
                       {0x1.e641b6p+0f, 0x1.bd4a26p+0f, 0x1.ddd526p+0f}, 2);
}

void multinomials() {
  r::Generator g(8);
  const std::vector<float> p = {1, 2, 3, 4, 4, 0, 0, 1};
  std::vector<int64_t> with(12), without(4), single(2);
  r::multinomial(g, DType::Float32, p.data(), 2, 4, 6, true, with.data());
  expect_values<int64_t>("multinomial with replacement", with,
                         {3, 2, 1, 1, 3, 2, 0, 0, 0, 0, 0, 3});
  r::multinomial(g, DType::Float32, p.data(), 2, 4, 2, false, without.data());
  expect_values<int64_t>("multinomial without replacement", without, {2, 3, 0, 3});
  r::multinomial(g, DType::Float32, p.data(), 2, 4, 1, false, single.data());
  expect_values<int64_t>("multinomial of one sample", single, {3, 0});
}

void interleaved_calls() {
  r::Generator g(10);
  expect_values<float>("rand(2), ...", uniform<float>(g, DType::Float32, 2),
                       {0x1.d51424p-2f, 0x1.ee71f4p-2f});
  expect_values<float>("... randn(3), ...", normal<float>(g, DType::Float32, 3),
                       {-0x1.93b0cap+0f, 0x1.108672p-13f, -0x1.229d1p+1f}, 2);
  auto tail = normal<float>(g, DType::Float32, 17);
  tail.erase(tail.begin(), tail.end() - 2);
  expect_values<float>("... randn(17), which keeps the waiting normal, ...", tail,
                       {-0x1.c4392ep-1f, 0x1.f2bdd6p-1f});
  expect_values<int64_t>("... randint(10), ...", integers<int64_t>(g, DType::Int64, 3, 0, 10),
                         {2, 9, 6});
  expect_values<float>("... randn(2), which uses it, ...", normal<float>(g, DType::Float32, 2),
                       {-0x1.7c8c7ep-1f, -0x1.6f2e68p+0f}, 2);
  std::vector<int32_t> order(5);
  r::randperm(g, DType::Int32, order.data(), 5);
  expect_values<int32_t>("... randperm(5)", order, {1, 2, 4, 0, 3});
}

uint64_t fnv1a(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

void states() {
  r::Generator g(9);
  normal<float>(g, DType::Float32, 3);
  uniform<float>(g, DType::Float32, 700);
  const auto blob = g.get_state();
  expect(blob.size() == 5056 && fnv1a(blob) == 0x8e90a60920711c01u,
         "the state blob is PyTorch's, byte for byte");
  r::Generator other(123);
  other.set_state(blob.data(), blob.size());
  expect(other.get_state() == blob, "a state survives the round trip");
  expect_values<float>("randn(2) after set_state", normal<float>(other, DType::Float32, 2),
                       {0x1.623afep-2f, 0x1.f82686p-1f}, 2);
  expect_values<float>("rand(1) after set_state", uniform<float>(other, DType::Float32, 1),
                       {0x1.b3561p-2f});
  g.copy_state(other);
  expect(g.get_state() == other.get_state(), "copy_state copies all of it");

  r::Generator one(5), many(5);
  std::vector<uint32_t> words(2000);
  many.random32();
  one.random32();
  many.fill(words.data(), 2000);
  bool same = true;
  for (uint32_t word : words) same &= word == one.random32();
  expect(same && one.get_state() == many.get_state(), "fill gives the words of random32");
  one.discard(1500);
  many.fill(words.data(), 1500);
  expect(one.get_state() == many.get_state(), "discard skips the words that fill draws");

  const auto refused = [&](const char* what, size_t at, uint8_t value) {
    auto bad = blob;
    bad[at] = value;
    expect_refused(what, [&](r::Generator& fresh) { fresh.set_state(bad.data(), bad.size()); });
  };
  refused("a state that was never seeded", 12, 0);
  refused("a state with no words left", 9, 0x80);
  refused("a state whose position lies behind its end", 17, 2);
  refused("a state with a word beyond 32 bits", 28, 1);
  expect_refused("a state of another length",
                 [&](r::Generator& fresh) { fresh.set_state(blob.data(), 5055); });
}

void bad_arguments() {
  std::vector<double> out(8);
  std::vector<float> p = {0.5f, 1.5f, std::nanf("")};
  int64_t index[8];
  void* o = out.data();
  const auto top = std::numeric_limits<int64_t>::max();
  expect_refused("std < 0", [&](auto& g) { r::normal(g, DType::Float32, o, 3, 0, -1); });
  expect_refused("from > to", [&](auto& g) { r::uniform(g, DType::Float32, o, 3, 1, 0); });
  expect_refused("to = inf", [&](auto& g) { r::uniform(g, DType::Float64, o, 3, 0, INFINITY); });
  expect_refused("integer normals", [&](auto& g) { r::normal(g, DType::Int32, o, 3, 0, 1); });
  expect_refused("lambda = 0", [&](auto& g) { r::exponential(g, DType::Float32, o, 3, 0); });
  expect_refused("geometric p = 1", [&](auto& g) { r::geometric(g, DType::Float32, o, 3, 1); });
  expect_refused("bernoulli p = nan", [&](auto& g) { r::bernoulli(g, DType::Float32, o, 3, NAN); });
  expect_refused("bernoulli of 1.5",
                 [&](auto& g) { r::bernoulli(g, DType::Float32, o, 3, DType::Float32, p.data()); });
  expect_refused("an empty range",
                 [&](auto& g) { r::random_from_to(g, DType::Int64, o, 3, 5, 5); });
  expect_refused("300 in uint8",
                 [&](auto& g) { r::random_from_to(g, DType::UInt8, o, 3, 0, 301); });
  expect_refused("2**63 in float32",
                 [&](auto& g) { r::random_from_to(g, DType::Float32, o, 3, top - 9, top); });
  expect_refused("n < 0", [&](auto& g) { r::randperm(g, DType::Int64, o, -1); });
  expect_refused("129 in int8", [&](auto& g) { r::randperm(g, DType::Int8, o, 129); });
  expect_refused("nan weight", [&](auto& g) {
    r::multinomial(g, DType::Float32, p.data(), 1, 3, 1, true, index);
  });
  expect_refused("too many samples", [&](auto& g) {
    r::multinomial(g, DType::Float32, p.data(), 1, 2, 3, false, index);
  });
  expect_refused("no weight", [&](auto& g) {
    r::multinomial(g, DType::Float64, out.data(), 1, 4, 2, true, index);
  });
}

}  // namespace

int main() {
  normals();
  uniforms();
  whole_numbers();
  bernoullis();
  through_logarithms();
  multinomials();
  interleaved_calls();
  states();
  bad_arguments();
  return report("random");
}
