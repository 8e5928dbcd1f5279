// Transforms along one axis of strided memory: the interface of this folder.
//
// What is where: factors.h lengths and their factors, roots.h roots of unity, plan.h what is known
// of a length, tile.h and ../isa/fft.cpp transforms side by side in vectors, line.h a long one.
#pragma once
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace adjoint::fft {

enum class Kind : uint8_t {
  Complex,  // complex to complex
  Forward,  // real to the first n/2 + 1 elements of its spectrum
  Back,     // the other way round
};

// An axis that is not transformed. Strides count elements of the array they belong to.
struct Loop {
  int64_t size, in_stride, out_stride;
};

struct Axis {
  Kind kind;
  bool is_double;
  bool inverse;  // of Complex: with exp(+2 pi i j k / n). Forward has a minus sign, Back a plus
  int64_t n;     // of the signal
  double scale;
  const char* in;
  char* out;  // may be `in`, with the same strides, for Complex
  int64_t in_stride, out_stride;
  std::vector<Loop> loops;  // none of size zero
};

// n > 0. Runs on the pool; does not touch Python.
void transform(const Axis& axis);

}  // namespace adjoint::fft
