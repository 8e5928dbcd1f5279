// Lists the vectors, taps and planes of a convolution. See Note [Planes] in conv_geometry.h.
#include "kernels/windows/conv_geometry.h"

#include <algorithm>

namespace adjoint {
namespace {

// The vectors of a grid of `count` outputs.
void cover(PlanePass& p, const Axes3& plane, const Axes3& count, int64_t in, int64_t out,
           const Axes3& out_stride, int lanes) {
  const Axes3 pitch = steps_of(plane);
  p.out_step = out_stride[2];
  each_place({count[0], count[1], (count[2] - 1) / lanes + 1}, [&](const Axes3& i) {
    const int64_t x = i[2] * lanes, some = std::min<int64_t>(lanes, count[2] - x);
    p.places.push_back({static_cast<int32_t>(in + i[0] * pitch[0] + i[1] * pitch[1] + x),
                        static_cast<int32_t>(out + i[0] * out_stride[0] + i[1] * out_stride[1] +
                                             x * out_stride[2]),
                        static_cast<uint32_t>((uint64_t{1} << some) - 1)});
  });
  // As one row, if that takes fewer.
  const int64_t last = (count[0] - 1) * pitch[0] + (count[1] - 1) * pitch[1] + count[2];
  const bool dense = out_stride == steps_of(count);
  if (!dense || (last - 1) / lanes + 1 >= static_cast<int64_t>(p.places.size())) return;
  p.places.clear();
  for (int64_t i = 0; i < last; i += lanes) {
    uint32_t mask = 0;
    for (int64_t l = 0; l < lanes && i + l < last; ++l)
      if ((i + l) % pitch[1] < count[2] && (i + l) % pitch[0] / pitch[1] < count[1])
        mask |= uint32_t{1} << l;
    if (mask) p.places.push_back({static_cast<int32_t>(in + i), static_cast<int32_t>(out), mask});
    out += __builtin_popcount(mask);
  }
}

// How many zeros at the end of a row may be those at the start of the next one: at most a vector,
// which stands in reserve behind the last row.
int64_t shared_zeros(int64_t size, int64_t source, int64_t first, int64_t step, int64_t at_most,
                     int lanes) {
  const int64_t begin = first >= 0 ? 0 : (-first + step - 1) / step;
  const int64_t end = source > first ? std::min(size, (source - first - 1) / step + 1) : 0;
  return std::max<int64_t>(0, std::min<int64_t>({begin, size - end, at_most, lanes}));
}

// The input is split by the remainders of its coordinates modulo the stride, which makes it 1.
Geometry geometry_of_output(const Conv& c, const ResultBlock& b, const Axes3& origin, int lanes) {
  const bool rows = b.size[2] == c.out[2];
  Geometry g;
  g.step = c.stride;
  for (int d = 0; d < 3; ++d)
    g.size[d] = b.size[d] + (c.kernel[d] - 1) * c.dilation[d] / c.stride[d];
  int64_t shared = rows ? g.size[2] - b.size[2] : 0;
  for (int64_t t = 0; t < c.kernel[2]; ++t)
    shared = std::min(shared,
                      shared_zeros(g.size[2], c.in[2], t * c.dilation[2] % c.stride[2] + origin[2],
                                   c.stride[2], shared, lanes));
  g.size[2] -= shared;
  PlanePass p;
  each_place(c.kernel, [&](const Axes3& t) {
    Axes3 phase;
    int64_t at = 0;
    for (int d = 0; d < 3; ++d) {
      phase[d] = t[d] * c.dilation[d] % c.stride[d];
      at = at * g.size[d] + t[d] * c.dilation[d] / c.stride[d];
    }
    const int64_t i = std::find(g.first.begin(), g.first.end(), phase) - g.first.begin();
    if (i == static_cast<int64_t>(g.first.size())) g.first.push_back(phase);
    p.tap_of.push_back(static_cast<int32_t>(p.tap.size()));
    p.tap.push_back(static_cast<int32_t>(i * volume(g.size) + at));
  });
  cover(p, g.size, b.size, 0, 0, steps_of(b.size), lanes);
  g.passes.push_back(std::move(p));
  return g;
}

// dx at i is the sum over taps t of g at (i + padding - t * dilation) / stride, where that is a
// whole number: a pass for each remainder r of i + padding modulo the stride.
Geometry geometry_of_input(const Conv& c, const ResultBlock& b, const Axes3& origin, int lanes) {
  const bool rows = b.size[2] == c.in[2];
  Geometry g;
  g.step = {1, 1, 1};
  g.first = {{0, 0, 0}};
  for (int d = 0; d < 3; ++d)
    g.size[d] = (b.start[d] + b.size[d] - 1 + c.padding[d]) / c.stride[d] - origin[d] + 1;
  const int64_t most = rows ? g.size[2] - ((b.size[2] - 1) / c.stride[2] + 1) : 0;
  g.size[2] -= shared_zeros(g.size[2], c.out[2], origin[2], 1, most, lanes);
  each_place(c.stride, [&](const Axes3& r) {
    Axes3 count, step = steps_of(b.size);
    int64_t in = 0, out = 0;
    for (int d = 0; d < 3; ++d) {
      const int64_t s = c.stride[d], end = b.start[d] + b.size[d];
      const int64_t q = floor_div(b.start[d] + c.padding[d] - r[d] + s - 1, s);
      const int64_t i = q * s + r[d] - c.padding[d];  // the first of this remainder
      count[d] = end > i ? (end - i - 1) / s + 1 : 0;
      in = in * g.size[d] + q - origin[d];
      out += (i - b.start[d]) * step[d];
      step[d] *= s;
    }
    if (volume(count) == 0) return;
    PlanePass p;
    p.remainder = (r[0] * c.stride[1] + r[1]) * c.stride[2] + r[2];
    int32_t index = 0;
    each_place(c.kernel, [&](const Axes3& t) {
      int64_t at = 0;
      bool mine = true;
      for (int d = 0; d < 3; ++d) {
        const int64_t back = r[d] - t[d] * c.dilation[d];
        mine = mine && back % c.stride[d] == 0;
        at = at * g.size[d] + back / c.stride[d];
      }
      if (mine) p.tap.push_back(static_cast<int32_t>(at)), p.tap_of.push_back(index);
      ++index;
    });
    cover(p, g.size, count, in, out, step, lanes);
    g.passes.push_back(std::move(p));
  });
  return g;
}

}  // namespace

Axes3 Sums::origin(const Axes3& start) const {
  Axes3 o;
  for (int d = 0; d < 3; ++d) {
    const int64_t reach = (c.kernel[d] - 1) * c.dilation[d];
    o[d] = of_input ? floor_div(start[d] + c.padding[d] - reach, c.stride[d])
                    : start[d] * c.stride[d] - c.padding[d];
  }
  return o;
}

ResultBlock Sums::shape(const ResultBlock& b) const {
  ResultBlock shape = b;
  for (int d = 0; d < 3; ++d) shape.start[d] = of_input ? b.start[d] % c.stride[d] : 0;
  return shape;
}

Geometry Sums::geometry(const ResultBlock& b, int lanes) const {
  return of_input ? geometry_of_input(c, b, origin(b.start), lanes)
                  : geometry_of_output(c, b, origin(b.start), lanes);
}

Blocks::Blocks(const Sums& s, int64_t most) : size_(s.result()) {
  const Conv& c = s.c;
  // About how long planes are along an axis, of a block that is so long.
  const auto planes = [&](int d, int64_t length) -> double {
    const int64_t reach = (c.kernel[d] - 1) * c.dilation[d];
    if (s.of_input) return double((length + reach) / c.stride[d] + 2);
    const int64_t phases = std::min(c.stride[d], c.kernel[d]);
    return double(phases) * double(length + reach / c.stride[d]);
  };
  double rest = planes(0, size_[0]) * planes(1, size_[1]) * planes(2, size_[2]);
  for (axis_ = 0;; ++axis_) {
    length_ = size_[axis_];
    const double others = rest / planes(axis_, length_);
    while (length_ > 1 && planes(axis_, length_) > double(most) / others)
      length_ = (length_ + 1) / 2;
    if (axis_ == 2 || length_ > 1 || planes(axis_, 1) <= double(most) / others) break;
    rest = others * planes(axis_, 1);
    whole_ *= size_[axis_];
  }
}

ResultBlock Blocks::operator[](int64_t i) const {
  ResultBlock b{{0, 0, 0}, size_};
  const int64_t along = (size_[axis_] - 1) / length_ + 1;
  b.start[axis_] = i % along * length_;
  b.size[axis_] = std::min(length_, size_[axis_] - b.start[axis_]);
  i /= along;
  for (int d = axis_ - 1; d >= 0; --d) {
    b.start[d] = i % size_[d];
    b.size[d] = 1;
    i /= size_[d];
  }
  return b;
}

int64_t Blocks::offset(const ResultBlock& b) const {
  return (b.start[0] * size_[1] + b.start[1]) * size_[2] + b.start[2];
}

}  // namespace adjoint
