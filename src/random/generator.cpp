// The Mersenne twister of Matsumoto and Nishimura (1998, seeding of 2002), and the state blob.
// Read next: distributions.cpp.
#include "random/generator.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace adjoint::random {

namespace {

constexpr int kN = 624, kM = 397;

inline uint32_t twisted(uint32_t upper, uint32_t lower) {
  const uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
  return (y >> 1) ^ ((lower & 1u) ? 0x9908b0dfu : 0u);
}

// The layout of PyTorch's blob. Words are stored in 64 bits, and three doubles of an older normal
// sampler are still there; only the middle one carries a value.
struct Blob {
  uint64_t seed;
  int32_t left;
  int32_t seeded;
  uint64_t next;
  uint64_t state[kN];
  double unused_x;
  double next_double_normal;
  double unused_rho;
  int32_t has_double_normal;
  int32_t padding;
  float next_float_normal;
  uint8_t has_float_normal;
  uint8_t padding2[3];
};
static_assert(sizeof(Blob) == kStateBytes && std::is_trivially_copyable_v<Blob>);

void check(const Blob& blob) {
  const auto refuse = [](const std::string& what) {
    throw std::runtime_error(
        "Invalid mt19937 state: " + what +
        "; pass a state that get_rng_state() or Generator.get_state() returned");
  };
  if (blob.seeded != 1) refuse("its `seeded` mark is " + std::to_string(blob.seeded) + ", not 1");
  // PyTorch checks the two bounds apart; together they also keep every read inside the array.
  if (blob.left < 1 || blob.left > kN || blob.next > kN || blob.next + blob.left > kN + 1) {
    refuse("position " + std::to_string(blob.next) + " with " + std::to_string(blob.left) +
           " words left lies outside its 624 words");
  }
  for (uint64_t word : blob.state) {
    if (word >> 32) refuse("the word " + std::to_string(word) + " does not fit into 32 bits");
  }
}

}  // namespace

void Generator::manual_seed(uint64_t seed) {
  seed_ = seed;
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t j = 1; j < kN; ++j) {
    state_[j] = 1812433253u * (state_[j - 1] ^ (state_[j - 1] >> 30)) + j;
  }
  left_ = 1;
  next_ = 0;
  next_double_normal.reset();
  next_float_normal.reset();
}

uint64_t Generator::seed() {
  std::random_device entropy;
  const uint64_t high = entropy(), low = entropy();
  const uint64_t value = (high << 32 | low) & ((1ull << 53) - 1);
  manual_seed(value);
  return value;
}

void Generator::twist() {
  uint32_t* s = state_.data();
  for (int j = 0; j < kN - kM; ++j) s[j] = s[j + kM] ^ twisted(s[j], s[j + 1]);
  for (int j = kN - kM; j < kN - 1; ++j) s[j] = s[j - (kN - kM)] ^ twisted(s[j], s[j + 1]);
  s[kN - 1] = s[kM - 1] ^ twisted(s[kN - 1], s[0]);
  left_ = kN + 1;
  next_ = 0;
}

void Generator::fill(uint32_t* out, int64_t n) {
  while (n > 0) {
    if (left_ == 1) twist();
    const int m = static_cast<int>(std::min<int64_t>(n, left_ - 1));
    const uint32_t* s = state_.data() + next_;
    for (int j = 0; j < m; ++j) out[j] = temper(s[j]);
    next_ += m;
    left_ -= m;
    out += m;
    n -= m;
  }
}

void Generator::discard(int64_t n) {
  while (n > 0) {
    if (left_ == 1) twist();
    const int m = static_cast<int>(std::min<int64_t>(n, left_ - 1));
    next_ += m;
    left_ -= m;
    n -= m;
  }
}

std::vector<uint8_t> Generator::get_state() const {
  std::lock_guard lock(mutex);
  Blob blob{};
  blob.seed = seed_;
  blob.left = left_;
  blob.seeded = 1;
  blob.next = next_;
  std::copy(state_.begin(), state_.end(), blob.state);
  blob.has_double_normal = next_double_normal.has_value();
  blob.next_double_normal = next_double_normal.value_or(0.0);
  blob.has_float_normal = next_float_normal.has_value();
  blob.next_float_normal = next_float_normal.value_or(0.0f);
  std::vector<uint8_t> bytes(sizeof(Blob));
  std::memcpy(bytes.data(), &blob, sizeof(Blob));
  return bytes;
}

void Generator::set_state(const uint8_t* bytes, size_t length) {
  if (length != kStateBytes) {
    throw std::runtime_error("Expected an RNG state of " + std::to_string(kStateBytes) +
                             " bytes, but got " + std::to_string(length) + " bytes");
  }
  Blob blob;
  std::memcpy(&blob, bytes, sizeof(Blob));
  check(blob);
  std::lock_guard lock(mutex);
  seed_ = blob.seed;
  left_ = blob.left;
  next_ = static_cast<uint32_t>(blob.next);
  for (int j = 0; j < kN; ++j) state_[j] = static_cast<uint32_t>(blob.state[j]);
  next_double_normal.reset();
  next_float_normal.reset();
  if (blob.has_double_normal) next_double_normal = blob.next_double_normal;
  if (blob.has_float_normal) next_float_normal = blob.next_float_normal;
}

void Generator::copy_state(const Generator& other) {
  if (&other == this) return;
  std::scoped_lock lock(mutex, other.mutex);
  seed_ = other.seed_;
  left_ = other.left_;
  next_ = other.next_;
  state_ = other.state_;
  next_double_normal = other.next_double_normal;
  next_float_normal = other.next_float_normal;
}

// A key rather than a thread_local: those of the library share little room, and a draw is rare.
static pthread_key_t own_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    if (pthread_key_create(&made, nullptr) != 0) throw std::runtime_error("no room for a key");
    return made;
  }();
  return key;
}

void set_thread_generator(Generator* generator) { pthread_setspecific(own_key(), generator); }

Generator& default_generator() {
  if (auto* own = static_cast<Generator*>(pthread_getspecific(own_key()))) [[unlikely]]
    return *own;
  // Never destroyed: threads may still draw while the process winds down.
  static Generator* generator = [] {
    auto* g = new Generator;
    g->seed();
    return g;
  }();
  return *generator;
}

}  // namespace adjoint::random
