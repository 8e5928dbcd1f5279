// Loops over places. Read indexing.h first. Moves know only the size of an element; reductions know
// its type.
#include "kernels/index/indexing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/convert_element.h"
#include "kernels/element_type.h"
#include "kernels/kernel.h"
#include "kernels/moved_item.h"
#include "kernels/stored_bool.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

using namespace ADJOINT_ISA_TAG;

constexpr int64_t kGrain = 32768;  // elements per chunk

// Rows that lie anywhere arrive late: they are asked for so many rows ahead, and so much of them; the
// processor sees by itself that the rest follows.
constexpr int64_t kAhead = 32, kFetched = 1024;

template <class Item>
void fetch_row(const Item* row, int64_t width) {
  const char* from = reinterpret_cast<const char*>(row);
  const int64_t bytes = std::min<int64_t>(width * static_cast<int64_t>(sizeof(Item)), kFetched);
  for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(from + b, 0, 2);
}

// Rows of a few elements that lie side by side: a width that the compiler knows is no call of memcpy.
template <int Width, class Item>
void gather_short_rows(Item* out, const Item* base, const Places& p, int64_t begin, int64_t end) {
  const int64_t keys = static_cast<int64_t>(p.index.size());
  for (int64_t row = begin; row < end;) {
    const int64_t b = row / keys, last = std::min(end, (b + 1) * keys);
    const Item* from = base + p.outer[b];
    const int64_t* index = p.index.data() - b * keys;
    const int64_t far = std::max(row, std::min(last, (b + 1) * keys - kAhead));
    for (; row < far; ++row) {
      __builtin_prefetch(from + index[row + kAhead], 0, 2);
      std::memcpy(out + row * Width, from + index[row], Width * sizeof(Item));
    }
    for (; row < last; ++row)
      std::memcpy(out + row * Width, from + index[row], Width * sizeof(Item));
  }
}

template <class Item>
void gather_rows(Item* out, const Item* base, const Places& p, int64_t begin, int64_t end) {
  const int64_t keys = static_cast<int64_t>(p.index.size());
  const int64_t width = static_cast<int64_t>(p.inner.size());
  if (p.inner_dense && width <= 4) {
    switch (width) {
      case 1:
        return gather_short_rows<1>(out, base, p, begin, end);
      case 2:
        return gather_short_rows<2>(out, base, p, begin, end);
      case 3:
        return gather_short_rows<3>(out, base, p, begin, end);
      default:
        return gather_short_rows<4>(out, base, p, begin, end);
    }
  }
  int64_t b = begin / keys, k = begin % keys;
  for (int64_t row = begin; row < end; ++row) {
    const Item* from = base + p.outer[b] + p.index[k];
    Item* to = out + row * width;
    if (width == 1) {
      *to = *from;
    } else if (p.inner_dense) {
      if (k + kAhead < keys) fetch_row(base + p.outer[b] + p.index[k + kAhead], width);
      std::memcpy(to, from, width * sizeof(Item));
    } else {
      for (int64_t a = 0; a < width; ++a) to[a] = from[p.inner[a]];
    }
    if (++k == keys) k = 0, ++b;
  }
}

// --- reductions ---------------------------------------------------------------------------------
template <class T>
struct Arithmetic {
  using Wide = T;
  static Wide load(T x) { return x; }
  static T store(Wide x) { return x; }
};
template <>
struct Arithmetic<truth_t> {
  using Wide = bool;
  static bool load(truth_t x) { return static_cast<bool>(x); }
  static truth_t store(bool x) { return {x}; }
};
template <>
struct Arithmetic<half_t> {
  using Wide = float;
  static float load(half_t x) { return half_to_float(x); }
  static half_t store(float x) { return float_to_half(x); }
};
template <>
struct Arithmetic<bfloat16_t> {
  using Wide = float;
  static float load(bfloat16_t x) { return bfloat16_to_float(x); }
  static bfloat16_t store(float x) { return float_to_bfloat16(x); }
};

// Signed overflow wraps, as PyTorch's does.
template <class T>
T add(T x, T y) {
  if constexpr (std::is_same_v<T, bool>) {
    return x || y;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  } else {
    return x + y;
  }
}
template <class T>
T multiply(T x, T y) {
  if constexpr (std::is_same_v<T, bool>) {
    return x && y;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  } else {
    return x * y;
  }
}

template <Reduce How, class T>
T combine(T x, T y) {
  if constexpr (How == Reduce::Replace) {
    return y;
  } else if constexpr (How == Reduce::Add) {
    return add(x, y);
  } else if constexpr (How == Reduce::Multiply) {
    return multiply(x, y);
  } else if constexpr (std::is_same_v<T, complex64_t> || std::is_same_v<T, complex128_t>) {
    return y;  // refused by the callers: complex numbers have no order
  } else if constexpr (How == Reduce::Max) {
    return (y > x || y != y) ? y : x;  // NaN wins
  } else {
    return (y < x || y != y) ? y : x;
  }
}

// Blocks [b0, b1) of the outer list and columns [a0, a1) of the inner one, for every key in order.
struct Piece {
  int64_t b0, b1, a0, a1;
};

// Whole rows of a few elements that lie side by side. Keys that follow each other often name the same
// row, whose sum then stays in registers: by a stack of types, since an array would go through memory.
template <Reduce How, int Width, class T>
struct ShortRow {
  using A = Arithmetic<T>;
  T first;
  ShortRow<How, Width - 1, T> rest;
  void load(const T* row) { first = row[0], rest.load(row + 1); }
  void store(T* row) const { row[0] = first, rest.store(row + 1); }
  void take(const T* from) {
    first = A::store(combine<How>(A::load(first), A::load(from[0])));
    rest.take(from + 1);
  }
};
template <Reduce How, class T>
struct ShortRow<How, 0, T> {
  void load(const T*) {}
  void store(T*) const {}
  void take(const T*) {}
};

template <Reduce How, int Width, class T>
void scatter_short_rows(T* base, const T* src, const Places& p, Piece piece) {
  const int64_t keys = static_cast<int64_t>(p.index.size());
  for (int64_t b = piece.b0; b < piece.b1; ++b) {
    T* block = base + p.outer[b];
    const T* from = src + b * keys * Width;
    for (int64_t k = 0; k < keys;) {
      const int64_t row = p.index[k];
      ShortRow<How, Width, T> sum;
      sum.load(block + row);
      do sum.take(from + k * Width);
      while (++k < keys && p.index[k] == row);
      sum.store(block + row);
    }
  }
}

template <Reduce How, class T>
void scatter_piece(T* base, const T* src, bool one, const Places& p, Piece piece) {
  using A = Arithmetic<T>;
  const int64_t keys = static_cast<int64_t>(p.index.size());
  const int64_t width = static_cast<int64_t>(p.inner.size());
  if constexpr (How == Reduce::Add) {
    const bool whole = !one && p.inner_dense && piece.a0 == 0 && piece.a1 == width;
    if (whole && width == 1) return scatter_short_rows<How, 1>(base, src, p, piece);
    if (whole && width == 2) return scatter_short_rows<How, 2>(base, src, p, piece);
    if (whole && width == 3) return scatter_short_rows<How, 3>(base, src, p, piece);
    if (whole && width == 4) return scatter_short_rows<How, 4>(base, src, p, piece);
  }
  for (int64_t b = piece.b0; b < piece.b1; ++b) {
    for (int64_t k = 0; k < keys; ++k) {
      T* to = base + p.outer[b] + p.index[k];
      const T* from = one ? src : src + (b * keys + k) * width;
      for (int64_t a = piece.a0; a < piece.a1; ++a) {
        T& place = to[p.inner_dense ? a : p.inner[a]];
        const T value = one ? *from : from[a];
        if constexpr (How == Reduce::Replace) {
          place = value;
        } else {
          place = A::store(combine<How>(A::load(place), A::load(value)));
        }
      }
    }
  }
}

// Two pieces never share a place, since only the keys can name one twice: so the order of values at
// a place does not depend on the threads. Where others can, there is one piece.
template <class F>
void each_piece(const Places& p, bool shared, F&& f) {
  const int64_t blocks = static_cast<int64_t>(p.outer.size());
  const int64_t keys = static_cast<int64_t>(p.index.size());
  const int64_t width = static_cast<int64_t>(p.inner.size());
  if (shared || p.numel() <= kGrain || (blocks == 1 && width == 1)) {
    f(Piece{0, blocks, 0, width});
  } else if (blocks > 1) {
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, keys * width));
    parallel::parallel_ranges(blocks, grain,
                              [&](int64_t b0, int64_t b1) { f(Piece{b0, b1, 0, width}); });
  } else {
    const int64_t grain = std::max<int64_t>(16, kGrain / std::max<int64_t>(1, keys));
    parallel::parallel_ranges(width, grain,
                              [&](int64_t a0, int64_t a1) { f(Piece{0, 1, a0, a1}); });
  }
}

template <class T>
void scatter_typed(char* base, const char* src, bool one, const Places& p, Reduce how,
                   bool shared) {
  T* to = reinterpret_cast<T*>(base);
  const T* from = reinterpret_cast<const T*>(src);
  each_piece(p, shared, [&](Piece piece) {
    switch (how) {
      case Reduce::Replace:
        return scatter_piece<Reduce::Replace>(to, from, one, p, piece);
      case Reduce::Add:
        return scatter_piece<Reduce::Add>(to, from, one, p, piece);
      case Reduce::Multiply:
        return scatter_piece<Reduce::Multiply>(to, from, one, p, piece);
      case Reduce::Max:
        return scatter_piece<Reduce::Max>(to, from, one, p, piece);
      case Reduce::Min:
        return scatter_piece<Reduce::Min>(to, from, one, p, piece);
    }
  });
}

// The keys of each row as a chain, first to last: first[r] is a key or -1, then next[k].
struct Chains {
  Offsets first, next;
  Chains(const int64_t* index, int64_t keys, int64_t rows) : first(rows, -1), next(keys) {
    for (int64_t k = keys - 1; k >= 0; --k) next[k] = std::exchange(first[index[k]], k);
  }
};

// x + y over rows, by a loop of this processor where there is one: 16-bit floats have none.
template <class T>
class AddRows {
 public:
  explicit AddRows(DType dtype, int64_t width) : width_(width), zeros_(width) {
    static const Kernel& add = *find_kernel("add");
    loop_ = add.loop[static_cast<int>(dtype)];
  }
  void sum(T* to, const T* x, const T* y) const {
    if (loop_) {
      char* p[3] = {bytes(to), bytes(x), bytes(y)};
      return loop_(p, width_);
    }
    using A = Arithmetic<T>;
    for (int64_t a = 0; a < width_; ++a) to[a] = A::store(A::load(x[a]) + A::load(y[a]));
  }
  const T* zeros() const { return zeros_.data(); }

 private:
  static char* bytes(const T* p) { return reinterpret_cast<char*>(const_cast<T*>(p)); }
  int64_t width_;
  std::vector<T> zeros_;
  Loop loop_;
};

// A sum starts from zero: that of -0 alone is 0.
template <class T>
void sum_of_chain(T* to, const T* src, const Chains& chains, int64_t key, int64_t width,
                  const AddRows<T>& rows) {
  rows.sum(to, src + key * width, rows.zeros());
  while ((key = chains.next[key]) >= 0) rows.sum(to, to, src + key * width);
}

// Rows [begin, end) of the sums.
template <class T>
void sum_chains(T* out, const T* src, const Chains& chains, int64_t begin, int64_t end,
                int64_t width, const AddRows<T>& rows) {
  const int64_t bytes = width * static_cast<int64_t>(sizeof(T));
  for (int64_t r = begin; r < end; ++r) {
    if (r + kAhead < end && chains.first[r + kAhead] >= 0)
      fetch_row(src + chains.first[r + kAhead] * width, width);
    if (chains.first[r] >= 0)
      sum_of_chain(out + r * width, src, chains, chains.first[r], width, rows);
    else
      std::memset(static_cast<void*>(out + r * width), 0, static_cast<size_t>(bytes));
  }
}

template <class Item>
void choose(char* const* p, int64_t n) {
  Item* out = reinterpret_cast<Item*>(p[0]);
  const Item *in = reinterpret_cast<const Item*>(p[1]),
             *value = reinterpret_cast<const Item*>(p[3]);
  const uint8_t* mask = reinterpret_cast<const uint8_t*>(p[2]);
  for (int64_t i = 0; i < n; ++i) out[i] = mask[i] ? value[i] : in[i];
}

}  // namespace

void gather_places(char* out, const char* base, DType dtype, const Places& p) {
  if (p.numel() == 0) return;
  const int64_t rows = static_cast<int64_t>(p.outer.size() * p.index.size());
  const int64_t width = static_cast<int64_t>(p.inner.size());
  const int64_t grain = std::max<int64_t>(1, kGrain / width);
  by_item_size(item_size(dtype), [&](auto item) {
    using Item = decltype(item);
    parallel::parallel_ranges(rows, grain, [&](int64_t begin, int64_t end) {
      gather_rows(reinterpret_cast<Item*>(out), reinterpret_cast<const Item*>(base), p, begin, end);
    });
  });
}

void scatter_places(char* base, const char* src, bool one, DType dtype, const Places& p, Reduce how,
                    bool shared) {
  if (p.numel() == 0) return;
  switch (dtype) {
    case DType::Bool:
      return scatter_typed<truth_t>(base, src, one, p, how, shared);
    case DType::UInt8:
      return scatter_typed<uint8_t>(base, src, one, p, how, shared);
    case DType::Int8:
      return scatter_typed<int8_t>(base, src, one, p, how, shared);
    // Moved, added or multiplied, the bits of integers are the same with and without a sign.
    case DType::UInt16:
    case DType::Int16:
      return scatter_typed<int16_t>(base, src, one, p, how, shared);
    case DType::UInt32:
    case DType::Int32:
      return scatter_typed<int32_t>(base, src, one, p, how, shared);
    case DType::UInt64:
    case DType::Int64:
      return scatter_typed<int64_t>(base, src, one, p, how, shared);
    case DType::Float16:
      return scatter_typed<half_t>(base, src, one, p, how, shared);
    case DType::BFloat16:
      return scatter_typed<bfloat16_t>(base, src, one, p, how, shared);
    case DType::Float32:
      return scatter_typed<float>(base, src, one, p, how, shared);
    case DType::Float64:
      return scatter_typed<double>(base, src, one, p, how, shared);
    case DType::Complex64:
      return scatter_typed<complex64_t>(base, src, one, p, how, shared);
    case DType::Complex128:
      return scatter_typed<complex128_t>(base, src, one, p, how, shared);
  }
}

void sum_into_rows(char* out, const char* src, DType dtype, const int64_t* index, int64_t keys,
                   int64_t rows, int64_t width) {
  const Chains chains(index, keys, rows);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(width, 1));
  with_float_type(dtype, [&](auto item) {
    using Item = decltype(item);
    const AddRows<Item> adding(dtype, width);
    parallel::parallel_ranges(rows, grain, [&](int64_t begin, int64_t end) {
      sum_chains(reinterpret_cast<Item*>(out), reinterpret_cast<const Item*>(src), chains, begin,
                 end, width, adding);
    });
  });
}

Offsets true_positions(const uint8_t* mask, int64_t n) {
  const int64_t chunks = (n + kGrain - 1) / kGrain;
  Offsets start(chunks + 1, 0);
  parallel::parallel_for(chunks, [&](int64_t c) {
    const int64_t end = std::min(n, (c + 1) * kGrain);
    int64_t count = 0;
    for (int64_t i = c * kGrain; i < end; ++i) count += mask[i] != 0;
    start[c + 1] = count;
  });
  for (int64_t c = 0; c < chunks; ++c) start[c + 1] += start[c];
  Offsets out(start[chunks]);
  parallel::parallel_for(chunks, [&](int64_t c) {
    const int64_t end = std::min(n, (c + 1) * kGrain);
    int64_t* to = out.data() + start[c];
    for (int64_t i = c * kGrain; i < end; ++i) {
      if (mask[i]) *to++ = i;
    }
  });
  return out;
}

MaskLoop mask_loop(DType dtype) {
  MaskLoop loop = nullptr;
  by_item_size(item_size(dtype), [&](auto item) { loop = choose<decltype(item)>; });
  return loop;
}

}  // namespace adjoint
