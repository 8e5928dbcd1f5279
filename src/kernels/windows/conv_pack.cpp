// See conv_pack.h.
#include "kernels/windows/conv_pack.h"

#include <algorithm>
#include <cstring>

#include "kernels/convert.h"

namespace adjoint {
namespace {

// Which elements of a plane lie inside of the source, along one axis.
struct Inside {
  int64_t begin, end;
  Inside(int64_t size, int64_t source, int64_t first, int64_t step) {
    begin = std::min(size, first >= 0 ? 0 : (-first + step - 1) / step);
    end = source > first ? std::min(size, (source - first - 1) / step + 1) : 0;
    end = std::max(begin, end);
  }
};

template <class T>
void zero(T* to, int64_t n) {
  if (n > 16)
    std::memset(to, 0, static_cast<size_t>(n) * sizeof(T));
  else
    for (int64_t i = 0; i < n; ++i) to[i] = 0;
}

// Rows are short: a call of memcpy costs as much as the copy.
template <class T>
void copy_row(T* to, const T* from, int64_t n, int64_t step) {
  constexpr int64_t kPiece = 32 / sizeof(T);
  if (step != 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  } else if (n >= kPiece) {
    for (int64_t i = 0; i < n - kPiece; i += kPiece) std::memcpy(to + i, from + i, 32);
    std::memcpy(to + n - kPiece, from + n - kPiece, 32);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

template <class T>
void pack_plane(T* to, DType type, const Axes3& plane, const char* from, DType from_type,
                const Axes3& strides, const Axes3& size, const Axes3& first, const Axes3& step) {
  const auto item = static_cast<int64_t>(item_size(from_type));
  const Inside z(plane[0], size[0], first[0], step[0]), y(plane[1], size[1], first[1], step[1]),
      x(plane[2], size[2], first[2], step[2]);
  const int64_t layer = plane[1] * plane[2], count = x.end - x.begin;
  const Loop loop = conversion(type, from_type);  // found once: rows are short
  const auto convert = [&](T* row, const char* source, int64_t n) {
    char* const p[] = {reinterpret_cast<char*>(row), const_cast<char*>(source)};
    loop(p, n);
  };
  if (z.begin == z.end || y.begin == y.end || count == 0) return zero(to, plane[0] * layer);
  zero(to, z.begin * layer);
  zero(to + z.end * layer, (plane[0] - z.end) * layer);
  for (int64_t k = z.begin; k < z.end; ++k) {
    T* rows = to + k * layer;
    zero(rows, y.begin * plane[2]);
    zero(rows + y.end * plane[2], (plane[1] - y.end) * plane[2]);
    for (int64_t j = y.begin; j < y.end; ++j) {
      T* row = rows + j * plane[2];
      const char* source = from + item * ((first[0] + k * step[0]) * strides[0] +
                                          (first[1] + j * step[1]) * strides[1] +
                                          (first[2] + x.begin * step[2]) * strides[2]);
      zero(row, x.begin);
      if (type == from_type)
        copy_row(row + x.begin, reinterpret_cast<const T*>(source), count, step[2] * strides[2]);
      else if (step[2] * strides[2] == 1)
        convert(row + x.begin, source, count);
      else
        copy_run(reinterpret_cast<char*>(row + x.begin), sizeof(T), type, source,
                 step[2] * strides[2] * item, from_type, count);
      zero(row + x.end, plane[2] - x.end);
    }
  }
}

template <class T>
void pack_rows(T* to, const PlanePass& p, const T* w, int64_t rows, int64_t padded,
               int64_t row_stride, int64_t channels, int64_t channel_stride) {
  for (int64_t c = 0; c < channels; ++c)
    for (const int32_t t : p.tap_of) {
      const T* from = w + c * channel_stride + t;
      for (int64_t m = 0; m < rows; ++m) to[m] = from[m * row_stride];
      for (int64_t m = rows; m < padded; ++m) to[m] = 0;
      to += padded;
    }
}

}  // namespace

void pack_channel(char* to, DType type, const Geometry& g, const char* from, DType from_type,
                  const Axes3& strides, const Axes3& size, const Axes3& origin) {
  for (const Axes3& phase : g.first) {
    const Axes3 first = {origin[0] + phase[0], origin[1] + phase[1], origin[2] + phase[2]};
    if (type == DType::Float32)
      pack_plane(reinterpret_cast<float*>(to), type, g.size, from, from_type, strides, size, first,
                 g.step);
    else
      pack_plane(reinterpret_cast<double*>(to), type, g.size, from, from_type, strides, size, first,
                 g.step);
    to += volume(g.size) * static_cast<int64_t>(item_size(type));
  }
}

void pack_weight(char* to, DType type, const PlanePass& p, const char* w, int64_t rows,
                 int64_t padded, int64_t row_stride, int64_t channels, int64_t channel_stride) {
  if (type == DType::Float32)
    pack_rows(reinterpret_cast<float*>(to), p, reinterpret_cast<const float*>(w), rows, padded,
              row_stride, channels, channel_stride);
  else
    pack_rows(reinterpret_cast<double*>(to), p, reinterpret_cast<const double*>(w), rows, padded,
              row_stride, channels, channel_stride);
}

void join_pairs(char* to, const char* second, int64_t count) {
  auto* pair = reinterpret_cast<uint32_t*>(to);
  const auto* next = reinterpret_cast<const uint32_t*>(second);
  if (next)
    for (int64_t i = 0; i < count; ++i) pair[i] = pair[i] >> 16 | (next[i] & 0xffff0000u);
  else
    for (int64_t i = 0; i < count; ++i) pair[i] >>= 16;
}

}  // namespace adjoint
