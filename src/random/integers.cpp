// Random integers and permutations. See distributions.h.
//
// An integer is a word modulo the size of the range: a 32-bit word while the range is short enough
// for the modulus to favour no value by more than about 5 %, else a 64-bit word.
#include <bit>
#include <string>

#include "random/distributions.h"
#include "random/elements.h"

namespace adjoint::random {

namespace {

constexpr uint64_t kWideRange = uint64_t{1} << 28;

std::string between(int64_t low, int64_t high, const char* relation) {
  return "got from=" + std::to_string(low) + relation + std::to_string(high);
}

template <class T>
int64_t round_trip(int64_t value) {
  return truncate<int64_t>(static_cast<double>(widen(cast<T>(value))));
}

// The distance of the floats of type T around an integer of this size.
template <class T>
int64_t spacing(int64_t value) {
  const uint64_t size = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int shift = 63 - std::countl_zero(size | 1) - kDigits<T> + 1;
  return shift > 0 ? int64_t{1} << shift : 1;
}

// Large integers round when they are stored as floats. The ends of [low, high) move inwards to the
// next float, so that no result leaves the range.
template <class T>
void move_ends_inwards(int64_t& low, int64_t* high) {
  // The first float above would be 2^63. PyTorch wraps around to negative numbers here.
  if (low == std::numeric_limits<int64_t>::max() ||
      static_cast<double>(widen(cast<T>(low + 1))) >= 0x1p63) {
    throw std::runtime_error(
        "from is out of bounds for random_: the dtype holds no integer above " +
        std::to_string(low) + " that fits into 64 bits");
  }
  if (const int64_t stored = round_trip<T>(low + 1); stored < low) {
    low = stored + spacing<T>(low + 1);
  }
  if (!high) return;
  if (const int64_t stored = round_trip<T>(*high - 1); stored >= *high) {
    *high = stored - spacing<T>(*high - 1);
  }
}

template <class T>
void require_in_range(int64_t value, const char* which, DType dtype) {
  bool inside = true;
  if constexpr (std::is_same_v<T, half_t>) {
    inside = value >= -65504 && value <= 65504;
  } else if constexpr (std::is_integral_v<T>) {
    inside = value >= static_cast<int64_t>(std::numeric_limits<T>::lowest()) &&
             value <= static_cast<int64_t>(std::numeric_limits<T>::max());
  }
  if (!inside) {
    throw std::runtime_error(std::string(which) + " is out of bounds for " + name_of(dtype) +
                             ": random_ got " + std::to_string(value));
  }
}

template <class T>
constexpr bool kIsFloating = kIsHalf<T> || std::is_floating_point_v<T>;

// The largest value of random_ without an upper end.
template <class T>
constexpr int64_t largest() {
  if constexpr (kIsFloating<T>)
    return int64_t{1} << kDigits<T>;
  else
    return static_cast<int64_t>(std::numeric_limits<T>::max());
}

template <class T>
void fill_modulo(Generator& g, T* out, int64_t n, uint64_t range, int64_t base) {
  const auto fill = [&](const auto* words, int64_t start, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t value = words[i] % range + static_cast<uint64_t>(base);
      out[start + i] = cast<T>(static_cast<int64_t>(value));
    }
  };
  if (range >= kWideRange) return draw<uint64_t>(g, n, fill);
  // The same remainder, by a 32-bit division.
  const uint32_t narrow = static_cast<uint32_t>(range);
  draw<uint32_t>(g, n, [&](const uint32_t* words, int64_t start, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      out[start + i] = cast<T>(static_cast<int64_t>(words[i] % narrow) + base);
    }
  });
}

template <class T>
void fill_all_bits(Generator& g, T* out, int64_t n, DType dtype) {
  if constexpr (std::is_same_v<T, int64_t> || (kIsFloating<T> && !std::is_same_v<T, half_t>)) {
    draw<uint64_t>(g, n, [&](const uint64_t* words, int64_t start, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        out[start + i] = cast<T>(static_cast<int64_t>(words[i]));
      }
    });
  } else {
    if (std::is_same_v<T, half_t> || std::is_same_v<T, bool>)
      throw unsupported_dtype("random_", dtype);
    throw std::runtime_error(
        std::string("random_ from -2^63 without an upper end handles only int64, float64, float32 "
                    "and bfloat16, but got ") +
        name_of(dtype));
  }
}

template <class T>
void fill_from_to(Generator& g, DType dtype, T* out, int64_t n, int64_t low,
                  std::optional<int64_t> high) {
  int64_t last = largest<T>();
  if (high) {
    int64_t end = *high;
    if (low >= end) {
      throw std::runtime_error("random_ expects 'from' to be less than 'to', but " +
                               between(low, end, " >= to="));
    }
    if constexpr (kIsFloating<T>) {
      move_ends_inwards<T>(low, &end);
      if (low >= end) {
        throw std::runtime_error(
            "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but " +
            between(low, end, " >= to="));
      }
    }
    last = end - 1;
  } else if constexpr (kIsFloating<T>) {
    move_ends_inwards<T>(low, nullptr);
    if (low >= last) {
      throw std::runtime_error(
          "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to "
          "dtype, but " +
          between(low, last, " > to_inc="));
    }
  }
  require_in_range<T>(low, "from", dtype);
  require_in_range<T>(last, "to - 1", dtype);
  const uint64_t range = static_cast<uint64_t>(last) - static_cast<uint64_t>(low) + 1;
  std::lock_guard lock(g.mutex);
  fill_modulo(g, out, n, range, low);
}

template <class T>
void fill_full(Generator& g, T* out, int64_t n) {
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr uint64_t range = static_cast<uint64_t>(largest<T>()) + 1;
  draw<Word>(g, n, [&](const Word* words, int64_t start, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      out[start + i] = cast<T>(static_cast<int64_t>(words[i] % range));
    }
  });
}

// Above this length the modulus of a 32-bit word would favour some positions noticeably.
constexpr int64_t kLongPermutation = std::numeric_limits<uint32_t>::max() / 20;

template <class T>
void fill_permutation(Generator& g, T* out, int64_t n) {
  if (n < kLongPermutation) {
    for (int64_t i = 0; i < n; ++i) out[i] = cast<T>(i);
    for (int64_t i = 0; i < n - 1; ++i) {
      std::swap(out[i], out[i + g.random32() % static_cast<uint32_t>(n - i)]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t j = static_cast<int64_t>(g.random64() % static_cast<uint64_t>(i + 1));
    out[i] = cast<T>(i);
    out[i] = out[j];
    out[j] = cast<T>(i);
  }
}

// The longest permutation whose entries the dtype can tell apart; bfloat16 is not limited in
// PyTorch, and repeats entries from 257 on there.
template <class T>
constexpr int64_t longest_permutation() {
  if constexpr (std::is_same_v<T, bfloat16_t>)
    return std::numeric_limits<int64_t>::max();
  else if constexpr (sizeof(T) == 8 && !kIsFloating<T>)
    return std::numeric_limits<int64_t>::max();
  else
    return largest<T>() + 1;
}

}  // namespace

void random_from_to(Generator& g, DType dtype, void* out, int64_t n, int64_t low,
                    std::optional<int64_t> high) {
  const bool all_bits = !high && low == std::numeric_limits<int64_t>::lowest();
  if (all_bits && n == 0) return;
  if (is_complex(dtype)) {
    if (all_bits) throw unsupported_dtype("random_", dtype);
    throw std::runtime_error(
        std::string("random_ handles only integral, floating-point and boolean types, but got ") +
        name_of(dtype));
  }
  visit_real(dtype, [&]<class T>(Type<T>) {
    T* to = static_cast<T*>(out);
    if (all_bits) {
      std::lock_guard lock(g.mutex);
      return fill_all_bits(g, to, n, dtype);
    }
    fill_from_to(g, dtype, to, n, low, high);
  });
}

void random_full(Generator& g, DType dtype, void* out, int64_t n) {
  if (n == 0) return;
  if (is_complex(dtype)) throw unsupported_dtype("random_", dtype);
  std::lock_guard lock(g.mutex);
  visit_real(dtype, [&]<class T>(Type<T>) { fill_full(g, static_cast<T*>(out), n); });
}

void randperm(Generator& g, DType dtype, void* out, int64_t n) {
  if (is_complex(dtype) || dtype == DType::Bool) throw unsupported_dtype("randperm", dtype);
  if (n < 0) throw std::runtime_error("n must be non-negative, got " + std::to_string(n));
  visit_real(dtype, [&]<class T>(Type<T>) {
    if (n > longest_permutation<T>()) {
      throw std::runtime_error("n cannot be greater than " +
                               std::to_string(longest_permutation<T>()) + " for " + name_of(dtype) +
                               ", but randperm got n=" + std::to_string(n));
    }
    std::lock_guard lock(g.mutex);
    fill_permutation(g, static_cast<T*>(out), n);
  });
}

}  // namespace adjoint::random
