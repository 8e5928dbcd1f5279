// Where a convolution reads and writes.
//
// Note [Planes]
// The channels that a block of outputs needs are copied into planes with zeros around them. A stride
// s is removed by splitting a plane into s * s planes by the remainder of the coordinates. A tap is
// then an offset: output q is the sum over (channel, tap) k of weight[k] * plane[q + offset[k]].
// Lanes of vectors run along positions: by rows, or through the whole plane as if it were one row,
// where the lanes between rows are dropped (whichever takes fewer vectors). Zeros to the right of a
// row serve as those to the left of the next one.
//
// The gradient of the input is the same over planes of g, once per remainder of the input's
// coordinates modulo the stride, with the taps of that remainder.
#pragma once
#include <vector>

#include "kernels/windows/conv.h"

namespace adjoint {

inline int64_t volume(const Axes3& s) { return s[0] * s[1] * s[2]; }
inline Axes3 steps_of(const Axes3& s) { return {s[1] * s[2], s[2], 1}; }
inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a - 1) / b) - 1; }

template <class F>
void each_place(const Axes3& n, F f) {
  for (int64_t a = 0; a < n[0]; ++a)
    for (int64_t b = 0; b < n[1]; ++b)
      for (int64_t c = 0; c < n[2]; ++c) f(Axes3{a, b, c});
}

// The outputs that one vector computes.
struct VectorPlace {
  int32_t in, out;  // lane 0 in the packed planes; the first valid lane in the output
  uint32_t mask;    // the lanes that are outputs
};

// One convolution of stride 1 over packed planes.
struct PlanePass {
  std::vector<int32_t> tap;         // its offset in the planes of a channel
  std::vector<int32_t> tap_of;      // its place in the kernel
  std::vector<VectorPlace> places;  // of one sample
  int64_t out_step = 1;             // between lanes in the output
  int64_t remainder = 0;            // which one it is for: passes of equal ones have equal taps
};

// Of a block of outputs.
struct Geometry {
  Axes3 size;                // of a packed plane
  Axes3 step;                // in the source, between elements of a plane
  std::vector<Axes3> first;  // of each plane of a channel, in the source, relative to the origin
  std::vector<PlanePass> passes;
  int64_t channel() const { return static_cast<int64_t>(first.size()) * volume(size); }
};

struct ResultBlock {
  Axes3 start, size;
  bool operator==(const ResultBlock&) const = default;
};

// Which sums are computed: those of outputs over the input, or those of inputs over the gradient.
struct Sums {
  const Conv& c;
  bool of_input;

  const Axes3& result() const { return of_input ? c.in : c.out; }
  const Axes3& source() const { return of_input ? c.out : c.in; }
  // Where the source begins to matter for a block.
  Axes3 origin(const Axes3& start) const;
  // Blocks with equal shapes have one geometry.
  ResultBlock shape(const ResultBlock& b) const;
  Geometry geometry(const ResultBlock& b, int lanes) const;
};

// The results, cut along one axis into blocks whose planes fit into `most` elements per channel.
// A block is one run in memory.
class Blocks {
 public:
  Blocks(const Sums& s, int64_t most);
  int64_t count() const { return whole_ * ((size_[axis_] - 1) / length_ + 1); }
  ResultBlock operator[](int64_t i) const;
  int64_t offset(const ResultBlock& b) const;  // in the plane of results

 private:
  Axes3 size_;
  int axis_ = 0;
  int64_t length_ = 1, whole_ = 1;
};

}  // namespace adjoint
