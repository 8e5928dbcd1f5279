// Read short_rows.h first.
#include "program/fuse/short_rows.h"

#include <algorithm>
#include <cstring>

#include "dispatch/elementwise_forward.h"
#include "kernels/short_rows.h"

namespace adjoint {
namespace {

using Place = TileLoops::Place;

// Rows of one run: `outer` bytes from one to the next, `inner` bytes from element to element.
struct Rows {
  int64_t count, length, outer, inner;
};

using Words = uint32_t __attribute__((vector_size(16), aligned(4), may_alias));
using Longs = uint64_t __attribute__((vector_size(16), aligned(8), may_alias));

// Each element three times; returns how many elements were read. The rest is left to the caller.
template <size_t Size>
int64_t repeat_thrice(const char* from, int64_t count, char* to) {
  constexpr int64_t kAtOnce = 16 / Size;
  int64_t k = 0;
  for (; k + kAtOnce <= count; k += kAtOnce, from += 16, to += 48) {
    if constexpr (Size == 4) {
      Words v = *reinterpret_cast<const Words*>(from);
      auto* out = reinterpret_cast<Words*>(to);
      out[0] = __builtin_shufflevector(v, v, 0, 0, 0, 1);
      out[1] = __builtin_shufflevector(v, v, 1, 1, 2, 2);
      out[2] = __builtin_shufflevector(v, v, 2, 3, 3, 3);
    } else {
      Longs v = *reinterpret_cast<const Longs*>(from);
      auto* out = reinterpret_cast<Longs*>(to);
      out[0] = __builtin_shufflevector(v, v, 0, 0);
      out[1] = v;
      out[2] = __builtin_shufflevector(v, v, 1, 1);
    }
  }
  return k;
}

// One row again and again: what is there already is doubled.
void repeat_row(const char* from, size_t bytes, int64_t count, char* to) {
  std::memcpy(to, from, bytes);
  const size_t all = bytes * static_cast<size_t>(count);
  for (size_t have = bytes; have < all;) {
    size_t more = std::min(have, all - have);
    std::memcpy(to + have, to, more);
    have += more;
  }
}

// Each element of a column, `length` times.
template <size_t Size>
void repeat_elements(const char* from, const Rows& r, char* to) {
  static const Kernel& kernel = kernel_named("repeat_elements");
  const DType dtype = Size == 4 ? DType::Float32 : DType::Float64;  // bits of any
  RepeatedElements g{r.length, r.outer};
  char* const arguments[] = {to, const_cast<char*>(from), reinterpret_cast<char*>(&g)};
  kernel.loop[static_cast<int>(dtype)](arguments, r.count);
}

// Whole rows, as bits. `Length` is that of a row, or 0 where it is not known beforehand.
template <size_t Size, int64_t Length>
void gather_rows(const char* data, const Rows& r, char* tile) {
  const int64_t length = Length ? Length : r.length;
  const auto bytes = static_cast<size_t>(length) * Size;
  int64_t k = 0;
  if (r.inner == Size && r.outer == static_cast<int64_t>(bytes)) {
    std::memcpy(tile, data, bytes * static_cast<size_t>(r.count));
    return;
  }
  if (r.inner == Size && r.outer == 0) return repeat_row(data, bytes, r.count, tile);
  if (Length == 3 && r.inner == 0 && r.outer == Size) {
    k = repeat_thrice<Size>(data, r.count, tile);
    data += k * r.outer;
    tile += static_cast<size_t>(k) * bytes;
  }
  if (!Length && r.inner == Size) {
    for (; k < r.count; ++k, data += r.outer, tile += bytes) std::memcpy(tile, data, bytes);
    return;
  }
  if (!Length && r.inner == 0) return repeat_elements<Size>(data, r, tile);
  for (; k < r.count; ++k, data += r.outer) {
    for (int64_t j = 0; j < length; ++j, tile += Size) std::memcpy(tile, data + j * r.inner, Size);
  }
}

template <size_t Size, int64_t Length>
void scatter_rows(const char* tile, const Rows& r, char* data) {
  const int64_t length = Length ? Length : r.length;
  const auto bytes = static_cast<size_t>(length) * Size;
  if (!Length && r.inner == Size) {
    for (int64_t k = 0; k < r.count; ++k, data += r.outer, tile += bytes)
      std::memcpy(data, tile, bytes);
    return;
  }
  for (int64_t k = 0; k < r.count; ++k, data += r.outer) {
    for (int64_t j = 0; j < length; ++j, tile += Size) std::memcpy(data + j * r.inner, tile, Size);
  }
}

template <size_t Size, int64_t Length>
void move_rows(bool written, char* data, const Rows& r, char* tile) {
  written ? scatter_rows<Size, Length>(tile, r, data) : gather_rows<Size, Length>(data, r, tile);
}

// The positions from `start` on: runs of whole rows, and the pieces of rows at both ends.
template <size_t Size, int64_t Length>
void move_runs(const TileLoops& f, const Place& p, char* data, int64_t start, int64_t n,
               char* tile) {
  const int last = f.shape.size() - 1;
  const int64_t length = f.shape[last], outer = p.strides[last - 1], inner = p.strides[last];
  int64_t index[kMaxDims];
  for (int i = last; i >= 0; --i) {
    index[i] = start % f.shape[i];
    start /= f.shape[i];
    data += index[i] * p.strides[i];
  }
  int64_t within = index[last];  // where the first row begins
  while (n > 0) {
    int64_t moved = std::min(n, length - within), rows = 1;
    if (moved < length) {
      move_rows<Size, 0>(p.written, data, {1, moved, outer, inner}, tile);
    } else {
      rows = std::min(n / length, f.shape[last - 1] - index[last - 1]);
      move_rows<Size, Length>(p.written, data, {rows, length, outer, inner}, tile);
      moved = rows * length;
    }
    n -= moved;
    tile += static_cast<size_t>(moved) * Size;
    data += rows * outer - within * inner;
    within = 0;
    index[last - 1] += rows;
    for (int i = last - 1; i > 0 && index[i] == f.shape[i]; --i) {
      data += p.strides[i - 1] - p.strides[i] * f.shape[i];
      index[i] = 0;
      ++index[i - 1];
    }
  }
}

template <size_t Size>
void move_sized(const TileLoops& f, const Place& p, char* data, int64_t start, int64_t n,
                char* tile) {
  switch (f.shape.back()) {
    case 2:
      return move_runs<Size, 2>(f, p, data, start, n, tile);
    case 3:
      return move_runs<Size, 3>(f, p, data, start, n, tile);
    case 4:
      return move_runs<Size, 4>(f, p, data, start, n, tile);
    default:
      return move_runs<Size, 0>(f, p, data, start, n, tile);
  }
}

}  // namespace

bool has_short_rows(const TileLoops& f, const Place& p) {
  size_t item = item_size(p.dtype);
  return !p.row && f.shape.size() >= 2 && f.shape.back() <= kLongestShortRow &&
         p.dtype == p.wanted && (item == 4 || item == 8);
}

void move_short_rows(const TileLoops& f, const Place& p, char* data, int64_t start, int64_t n,
                     char* tile) {
  item_size(p.dtype) == 4 ? move_sized<4>(f, p, data, start, n, tile)
                          : move_sized<8>(f, p, data, start, n, tile);
}

}  // namespace adjoint
