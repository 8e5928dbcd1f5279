// Mixed precision: while kAutocast is on, ops get their operands in the precision that their blocks
// say (`Autocast` in facts.h). It happens once, where apply.cpp begins: what an op does inside, its
// derivative and what is written in place go by the dtypes that they are given.
//
// Weights (float32 leaves that require grad) are cast once for all ops of a context: the casts are
// kept, with their history, until the outermost context ends.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// What apply does while kAutocast is on.
Value apply_autocast(const Op& op, Value* args);
// What apply does otherwise, the short way aside.
Value apply_as_given(const Op& op, Value* args);

inline DType lower_precision() { return mode_on(kAutocastHalf) ? DType::Float16 : DType::BFloat16; }
// Drops the casts of weights of this thread.
void clear_autocast_cache();

// Ops take their operands as they are while this lives.
struct AutocastOff {
  const uint32_t before = t_modes & kAutocast;
  AutocastOff() { t_modes &= ~kAutocast; }
  ~AutocastOff() { t_modes |= before; }
  AutocastOff(const AutocastOff&) = delete;
};

}  // namespace adjoint
