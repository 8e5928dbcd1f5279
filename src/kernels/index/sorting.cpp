// Sorting. Read sorting.h first.
#include "kernels/index/sorting.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "kernels/element_type.h"
#include "kernels/stored_bool.h"
#include "kernels/convert_element.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

using namespace ADJOINT_ISA_TAG;

template <class T>
auto key_of(T x) {
  if constexpr (std::is_same_v<T, truth_t>) {
    return static_cast<bool>(x);
  } else if constexpr (std::is_same_v<T, half_t>) {
    return half_to_float(x);
  } else if constexpr (std::is_same_v<T, bfloat16_t>) {
    return bfloat16_to_float(x);
  } else {
    return x;
  }
}

template <class K>
bool less(K a, K b) {
  if constexpr (std::is_floating_point_v<K>) {
    return a < b || (b != b && a == a);
  } else {
    return a < b;
  }
}

// A number that orders as the element does: NaN last, -0 and 0 alike. Equal elements are then told
// apart by their places, so that any sort is a stable one.
template <class T>
auto rank_of(T x) {
  if constexpr (std::is_same_v<T, truth_t>) {
    return uint32_t{x.byte != 0};
  } else if constexpr (std::is_same_v<T, half_t> || std::is_same_v<T, bfloat16_t>) {
    return rank_of(key_of(x));
  } else if constexpr (std::is_floating_point_v<T>) {
    using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr U sign = U{1} << (8 * sizeof(T) - 1);
    if (x != x) return ~U{0};
    const U bits = std::bit_cast<U>(x + T(0));
    return static_cast<U>(bits & sign ? ~bits : bits | sign);
  } else if constexpr (sizeof(T) == 8) {
    return static_cast<uint64_t>(x) ^ uint64_t { 1 } << 63;
  } else {
    return static_cast<uint32_t>(static_cast<int32_t>(x)) ^ uint32_t { 1 } << 31;
  }
}

// An element on its way: its rank and its place in the row. Ranks of 32 bits share a word with it.
struct Narrow {
  using Rank = uint32_t;
  static constexpr int kDigits = 4;
  static constexpr int64_t kFewest = 200;  // below, comparing is faster than counting digits
  uint64_t word;
  static Narrow of(uint32_t rank, int64_t place) {
    return {uint64_t{rank} << 32 | static_cast<uint64_t>(place)};
  }
  uint32_t rank() const { return static_cast<uint32_t>(word >> 32); }
  int64_t place() const { return static_cast<int64_t>(word & 0xffffffff); }
  bool operator<(const Narrow& o) const { return word < o.word; }
};

struct Wide {
  using Rank = uint64_t;
  static constexpr int kDigits = 8;
  static constexpr int64_t kFewest = 500;
  uint64_t high;
  int64_t at;
  static Wide of(uint64_t rank, int64_t place) { return {rank, place}; }
  uint64_t rank() const { return high; }
  int64_t place() const { return at; }
  bool operator<(const Wide& o) const { return high < o.high || (high == o.high && at < o.at); }
};

// Sorts by one byte of the ranks after the other, from the lowest; returns where the result lies.
template <class E>
E* radix_sort(E* from, E* to, int64_t n) {
  static constexpr int kDigits = E::kDigits;
  std::array<std::array<int64_t, 256>, kDigits> count{};
  for (int64_t i = 0; i < n; ++i) {
    auto rank = from[i].rank();
    for (int d = 0; d < kDigits; ++d) ++count[d][rank >> (8 * d) & 255];
  }
  for (int d = 0; d < kDigits; ++d) {
    auto digit = [d](const E& e) { return e.rank() >> (8 * d) & 255; };
    if (count[d][digit(from[0])] == n) continue;  // all alike
    int64_t next = 0;
    for (int64_t& c : count[d]) next += std::exchange(c, next);
    for (int64_t i = 0; i < n; ++i) to[count[d][digit(from[i])]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

// Brings the k + 1 first to the front, the last of them to place k, in time that grows with n. Each
// step writes without a branch that the processor would have to guess.
template <class E>
void select_first(E* e, int64_t n, int64_t k) {
  for (int round = 0; n > 24; ++round) {
    if (round == 64) return std::nth_element(e, e + k, e + n);  // pivots that split badly
    const E a = e[n / 4], b = e[n / 2], c = e[n - 1 - n / 4];
    const E pivot = a < b ? (b < c ? b : (a < c ? c : a)) : (a < c ? a : (b < c ? c : b));
    int64_t below = 0;
    for (int64_t i = 0; i < n; ++i) {
      const E x = e[i];
      e[i] = e[below];
      e[below] = x;
      below += x < pivot;
    }
    // e[below...] are the others, the pivot among them: at least one on either side.
    if (k < below) {
      n = below;
      continue;
    }
    e += below, n -= below, k -= below;
    if (k == 0) return static_cast<void>(std::iter_swap(e, std::min_element(e, e + n)));
    if (below == 0) {  // the pivot is the first of all
      std::iter_swap(e, std::min_element(e, e + n));
      ++e, --n, --k;
    }
  }
  std::sort(e, e + n);
}

template <class E, class T>
void fill_entries(const T* in, E* out, int64_t n, bool down) {
  using R = typename E::Rank;
  for (int64_t i = 0; i < n; ++i) {
    const auto rank = static_cast<R>(rank_of(in[i]));
    out[i] = E::of(down ? static_cast<R>(~rank) : rank, i);
  }
}

// Two buffers of n entries.
template <class E>
struct Buffers {
  std::unique_ptr<E[]> one, two;
  int64_t n;
  explicit Buffers(int64_t n)
      : one(std::make_unique_for_overwrite<E[]>(n)),
        two(n >= E::kFewest ? std::make_unique_for_overwrite<E[]>(n) : nullptr),
        n(n) {}

  E* sorted(int64_t keep) {
    if (keep < n && keep > 0) select_first(one.get(), n, keep - 1);
    if (keep >= E::kFewest) return radix_sort(one.get(), two.get(), keep);
    std::sort(one.get(), one.get() + keep);
    return one.get();
  }
};

template <class T>
void write_row(const T* in, const auto* entries, T* values, int64_t* positions, int64_t count) {
  for (int64_t k = 0; k < count; ++k) positions[k] = entries[k].place();
  for (int64_t k = 0; k < count; ++k) values[k] = in[positions[k]];
}

// The type of elements as they lie in memory.
template <class T>
using Lying = std::conditional_t<std::is_same_v<T, bool>, truth_t, T>;

// f(element type, entry type) for the elements of a dtype, in rows of n.
template <class F>
void with_entries(DType dtype, int64_t n, F&& f) {
  with_real_type(dtype, [&](auto item) {
    using T = Lying<decltype(item)>;
    if constexpr (sizeof(T) < 8) {
      if (n <= UINT32_MAX) return f(T{}, Narrow{});
    }
    f(T{}, Wide{});
  });
}

template <class U>
void turn_each(const char* in, char* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    U x;
    std::memcpy(&x, in + i * sizeof x, sizeof x);
    x ^= static_cast<U>(U{1} << (8 * sizeof x - 1));
    std::memcpy(out + i * sizeof x, &x, sizeof x);
  }
}

// Makes numbers with a sign of those without, and back, in the same order.
void turn_top_bits(const char* in, char* out, DType dtype, int64_t n) {
  if (dtype == DType::UInt16) return turn_each<uint16_t>(in, out, n);
  if (dtype == DType::UInt32) return turn_each<uint32_t>(in, out, n);
  turn_each<uint64_t>(in, out, n);
}

int64_t rows_per_thread(int64_t n) { return std::max<int64_t>(1, 8192 / std::max<int64_t>(n, 1)); }

// Which rank is wanted of a row of which so many are numbers.
int64_t wanted_rank(Pick pick, int64_t k, int64_t numbers, int64_t n) {
  if (pick == Pick::Rank) return k;
  if (numbers < n && pick == Pick::Median) return numbers;  // the first NaN
  return std::max<int64_t>((numbers - 1) / 2, 0);
}

template <class T>
int64_t count_numbers(const T* in, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto x = key_of(in[i]);
    count += x == x;
  }
  return count;
}

}  // namespace

void sort_rows(const char* in, char* values, int64_t* positions, DType dtype, int64_t rows,
               int64_t n, int64_t keep, bool descending) {
  if (is_wide_unsigned(dtype)) {
    const auto turned = std::make_unique_for_overwrite<char[]>(rows * n * item_size(dtype));
    turn_top_bits(in, turned.get(), dtype, rows * n);
    sort_rows(turned.get(), values, positions, signed_dtype(dtype), rows, n, keep, descending);
    return turn_top_bits(values, values, dtype, rows * keep);
  }
  with_entries(dtype, n, [&]<class T, class E>(T, E) {
    parallel::parallel_ranges(rows, rows_per_thread(n), [&](int64_t begin, int64_t end) {
      Buffers<E> buffers(n);
      for (int64_t r = begin; r < end; ++r) {
        const T* row = reinterpret_cast<const T*>(in) + r * n;
        fill_entries(row, buffers.one.get(), n, descending);
        write_row(row, buffers.sorted(keep), reinterpret_cast<T*>(values) + r * keep,
                  positions + r * keep, keep);
      }
    });
  });
}

void select_rows(const char* in, char* values, int64_t* positions, DType dtype, int64_t rows,
                 int64_t n, Pick pick, int64_t k) {
  with_entries(dtype, n, [&]<class T, class E>(T, E) {
    parallel::parallel_ranges(rows, rows_per_thread(n), [&](int64_t begin, int64_t end) {
      auto entries = std::make_unique_for_overwrite<E[]>(n);
      for (int64_t r = begin; r < end; ++r) {
        const T* row = reinterpret_cast<const T*>(in) + r * n;
        fill_entries(row, entries.get(), n, false);
        const int64_t numbers = pick == Pick::Rank ? n : count_numbers(row, n);
        const int64_t at = wanted_rank(pick, k, numbers, n);
        select_first(entries.get(), n, at);
        write_row(row, entries.get() + at, reinterpret_cast<T*>(values) + r, positions + r, 1);
      }
    });
  });
}

void search_sorted(const char* row, const int64_t* order, int64_t n, const char* values,
                   int64_t count, DType dtype, bool right, int64_t* out) {
  with_real_type(dtype, [&](auto item) {
    using T = Lying<decltype(item)>;
    const T *sorted = reinterpret_cast<const T*>(row), *v = reinterpret_cast<const T*>(values);
    for (int64_t i = 0; i < count; ++i) {
      const auto x = key_of(v[i]);
      int64_t low = 0, high = n;
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const auto y = key_of(sorted[order ? order[middle] : middle]);
        const bool before = right ? !less(x, y) : less(y, x);
        (before ? low : high) = before ? middle + 1 : middle;
      }
      out[i] = low;
    }
  });
}

}  // namespace adjoint
