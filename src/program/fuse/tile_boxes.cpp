// Values that loops over tiles put together from boxes of others. Read tiles.h (Assembly) first.
//
// A stencil reads its grid several times, each time moved by a step. A tile of what is moved is a tile
// of the grid, but for the rows that come from the other end: the largest box is copied as if it were
// all, and the others are written over it.
#include <cstring>

#include "program/fuse/tiles.h"

namespace adjoint {
namespace {

using Box = TileLoops::Box;
using Assembly = TileLoops::Assembly;

// The bytes of one box, or of the number that it is filled with.
struct From {
  const char* data;
  const Dims* strides;  // null: a number
  int64_t stride(int axis) const { return strides ? (*strides)[axis] : 0; }
};

template <size_t Size>
void copy_elements(char* to, const char* from, int64_t stride, int64_t count) {
  if (stride == Size && count > 4) {
    std::memcpy(to, from, static_cast<size_t>(count) * Size);
    return;
  }
  for (int64_t k = 0; k < count; ++k) std::memcpy(to + k * Size, from + k * stride, Size);
}

// The part of a box that lies in the positions [start, start + n).
template <size_t Size>
void copy_box(const TileLoops& f, const Box& b, From from, int64_t start, int64_t n, char* tile) {
  const int last = f.shape.size() - 1;
  if (last < 0) return copy_elements<Size>(tile, from.data, 0, 1);
  const int64_t end = start + n, inner = from.stride(last);
  const int64_t low = b.start[last], high = low + b.size[last];
  if (last == 0) {
    int64_t begin = std::max(start, low);
    copy_elements<Size>(tile + (begin - start) * Size, from.data + (begin - low) * inner, inner,
                        std::min(end, high) - begin);
    return;
  }
  const int64_t row = f.shape[last], rows = f.shape[last - 1], step = from.stride(last - 1);
  const int64_t first_row = b.start[last - 1], last_row = first_row + b.size[last - 1];
  for (int64_t plane = start / row / rows; plane * rows * row < end; ++plane) {
    const char* at = from.data;
    bool inside = true;
    int64_t index = plane;
    for (int i = last - 2; i >= 0; --i) {
      int64_t k = index % f.shape[i] - b.start[i];
      index /= f.shape[i];
      inside &= k >= 0 && k < b.size[i];
      at += k * from.stride(i);
    }
    if (!inside) continue;
    int64_t base = plane * rows * row;
    int64_t begin = std::max(first_row, (start - base) / row);
    int64_t until = std::min(last_row, (end - base + row - 1) / row);
    for (int64_t r = begin; r < until; ++r) {
      int64_t position = base + r * row;
      int64_t left = std::max(low, start - position), right = std::min(high, end - position);
      if (left < right)
        copy_elements<Size>(tile + (position + left - start) * Size,
                            at + (r - first_row) * step + (left - low) * inner, inner,
                            right - left);
    }
  }
}

template <size_t Size>
void fill_tile(const TileLoops& f, const Assembly& a, char* const* data, int64_t start, int64_t n,
               char* tile) {
  for (const Box& b : a.boxes) {
    if (b.place < 0) {
      copy_box<Size>(f, b, {f.numbers[b.number].bytes, nullptr}, start, n, tile);
      continue;
    }
    const char* from = data[b.place];
    if (&b == a.boxes.data() && b.flat) {
      int64_t begin = std::max(start, b.low), end = std::min(start + n, b.high);
      if (begin < end)
        std::memcpy(tile + (begin - start) * Size, from + (begin - b.before) * Size,
                    static_cast<size_t>(end - begin) * Size);
      continue;
    }
    copy_box<Size>(f, b, {from, &f.places[b.place].strides}, start, n, tile);
  }
}

int64_t count_of(const Dims& size) {
  int64_t n = 1;
  for (int64_t s : size) n *= s;
  return n;
}

}  // namespace

char* assemble(const TileLoops& f, const Assembly& a, char* const* data, int64_t start, int64_t n,
               char* tile) {
  for (const Box& b : a.boxes) {
    if (b.first <= start && start + n <= b.last)
      return data[b.place] +
             (start - b.before) * static_cast<int64_t>(item_size(f.places[b.place].dtype));
  }
  switch (item_size(a.dtype)) {
    case 1:
      fill_tile<1>(f, a, data, start, n, tile);
      break;
    case 2:
      fill_tile<2>(f, a, data, start, n, tile);
      break;
    case 4:
      fill_tile<4>(f, a, data, start, n, tile);
      break;
    case 8:
      fill_tile<8>(f, a, data, start, n, tile);
      break;
    default:
      fill_tile<16>(f, a, data, start, n, tile);
  }
  return tile;
}

// --- what is known before a run ------------------------------------------------------------------
int TileBuilder::assembled(int reg, std::span<const BoxOf> boxes, DType dtype) {
  for (size_t k = 0; k < made_->assemblies.size(); ++k) {
    if (made_->assemblies[k].reg == reg) return assembled_[k];
  }
  Assembly a;
  a.reg = reg;
  a.dtype = dtype;
  for (const BoxOf& from : boxes) {
    Box b;
    b.start = from.start;
    b.size = from.size;
    if (from.element) {
      b.number = values_[element(from.element, dtype, dtype)].place;
    } else {
      TileLoops::Place p;
      p.reg = from.reg;
      p.way = TileLoops::Way::Boxed;
      p.dtype = p.wanted = dtype;
      p.offset = from.offset;
      p.strides = from.byte_strides;
      b.place = static_cast<int>(made_->places.size());
      b.high = from.bytes;  // until the order of axes is known
      made_->places.push_back(std::move(p));
    }
    a.boxes.push_back(std::move(b));
  }
  Made m{dtype, Made::Assembled};
  m.place = static_cast<int>(made_->assemblies.size());
  made_->assemblies.push_back(std::move(a));
  assembled_.push_back(static_cast<int>(values_.size()));
  values_.push_back(m);
  return assembled_.back();
}

// Two neighbouring axes are one to a box that has all of the inner one, or one row of it.
bool TileBuilder::can_merge_boxes(int axis) const {
  for (const Assembly& a : made_->assemblies) {
    for (const Box& b : a.boxes) {
      if (b.size[axis] == 1) continue;
      if (b.size[axis + 1] != shape_[axis + 1]) return false;
      if (b.place < 0) continue;
      const Dims& strides = made_->places[b.place].strides;
      if (strides[axis] != strides[axis + 1] * shape_[axis + 1]) return false;
    }
  }
  return true;
}

void TileBuilder::merge_boxes(int axis) {
  for (Assembly& a : made_->assemblies) {
    for (Box& b : a.boxes) {
      bool row = b.size[axis] == 1;
      b.start[axis + 1] += b.start[axis] * shape_[axis + 1];
      if (!row) b.size[axis + 1] = b.size[axis] * shape_[axis + 1];
      b.start.erase(axis);
      b.size.erase(axis);
    }
  }
}

// Which boxes lie in memory as tiles do; the largest of those goes first.
void TileBuilder::classify_boxes() {
  const Dims flat = contiguous_strides(shape_);
  for (Assembly& a : made_->assemblies) {
    for (Box& b : a.boxes) {
      if (b.place < 0) continue;
      const TileLoops::Place& p = made_->places[b.place];
      const auto item = static_cast<int64_t>(item_size(p.dtype));
      const int64_t bytes = b.high;
      b.flat = p.offset % item == 0;
      bool gaps = false;
      for (int i = 0; i < shape_.size(); ++i) {
        b.flat &= b.size[i] == 1 || p.strides[i] == flat[i] * item;
        gaps |= i > 0 && b.size[i] != shape_[i];
        b.before += b.start[i] * flat[i];
      }
      b.low = b.before - p.offset / item;
      b.high = b.before + (bytes - p.offset) / item;
      if (!b.flat || gaps) continue;
      b.first = b.before;
      b.last = b.before + count_of(b.size);
    }
    auto largest = std::max_element(a.boxes.begin(), a.boxes.end(), [](const Box& x, const Box& y) {
      return (x.flat ? count_of(x.size) : 0) < (y.flat ? count_of(y.size) : 0);
    });
    if (largest->flat) std::iter_swap(a.boxes.begin(), largest);
  }
}

}  // namespace adjoint
