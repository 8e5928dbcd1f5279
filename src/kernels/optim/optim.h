// The update loops of the optimizers: one pass over the memory of all parameters, float32 and
// float64, each element with the roundings that the same formula has when it is computed with ops.
// Read next: formulas.h, optim.cpp for chunks and threads, ../isa/optim.cpp for
// the loops.
#pragma once
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace adjoint::optim {

// The parameter, its gradient, and up to three tensors of state.
inline constexpr int kMaxColumns = 5;
inline constexpr int kMaxNumbers = 12;

// One parameter's arrays, of one dtype and one order in memory; those not in use are null.
struct Arrays {
  void* columns[kMaxColumns] = {};
  int64_t n = 0;
  DType dtype = DType::Float32;
};

// Which formula, which of its options, and its numbers.
struct Step {
  int rule = 0;
  unsigned choice = 0;
  double numbers[kMaxNumbers] = {};
};

void run_step(const std::vector<Arrays>& all, const Step& step);

// One rule of one instruction set: the step for elements [begin, end) of one parameter.
using Loop = void (*)(const Arrays&, const Step&, int64_t begin, int64_t end);

}  // namespace adjoint::optim
