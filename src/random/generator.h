// The random number generator: a Mersenne twister (MT19937) that gives the stream of PyTorch's CPU
// generator for the same seed, and exchanges states with it.
// Read next: distributions.h, which turns its words into numbers.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace adjoint::random {

// The seed of a generator that was never seeded; the same as PyTorch's.
inline constexpr uint64_t kDefaultSeed = 67280421310721ull;

// Length of the state blob, the same as that of `torch.get_rng_state()`.
inline constexpr size_t kStateBytes = 5056;

// One stream of random words. The members below the mutex do not lock; distributions.h locks for
// the whole of each fill, so that two threads never share a word and a fill is never torn.
struct Generator {
  explicit Generator(uint64_t seed = kDefaultSeed) { manual_seed(seed); }

  mutable std::mutex mutex;

  // Restart the stream. Only the lower 32 bits choose it, as in PyTorch; all 64 are remembered.
  void manual_seed(uint64_t seed);
  // Restart from the operating system's entropy; returns the seed, which fits into 53 bits so that
  // it survives a trip through a double.
  uint64_t seed();
  uint64_t initial_seed() const { return seed_; }

  uint32_t random32() {
    if (left_ == 1) twist();
    --left_;
    return temper(state_[next_++]);
  }
  // Two words, the first one in the upper half.
  uint64_t random64() {
    const uint64_t high = random32();
    return high << 32 | random32();
  }
  // The next n words; the same as n calls of random32(), several times faster.
  void fill(uint32_t* out, int64_t n);
  void discard(int64_t n);

  // The state as a blob of kStateBytes bytes, byte for byte what PyTorch would return.
  std::vector<uint8_t> get_state() const;
  // Throws std::runtime_error, and changes nothing, unless the blob is one that get_state() or
  // PyTorch can have made.
  void set_state(const uint8_t* blob, size_t bytes);
  // Take over another generator's position (what `Generator.clone_state` does).
  void copy_state(const Generator& other);

  // Box-Muller makes normals in pairs; the second of a pair waits here. Only the double is ever
  // filled on CPUs; the float is kept because the blob has a place for it.
  std::optional<double> next_double_normal;
  std::optional<float> next_float_normal;

 private:
  static constexpr int kWords = 624;

  static uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
  }
  void twist();

  uint64_t seed_ = 0;
  // Invariant: 1 <= left_, and left_ - 1 words from next_ on are unread: next_ + left_ <= kWords
  // + 1.
  int left_ = 1;
  uint32_t next_ = 0;
  std::array<uint32_t, kWords> state_;
};

// The generator that functions use when the caller names none: this thread's own if it has one,
// otherwise the process's, seeded by the operating system.
Generator& default_generator();

// Lets this thread draw from a generator of its own, or with null from the process's again.
void set_thread_generator(Generator* generator);

}  // namespace adjoint::random
