// uint16, uint32 and uint64. PyTorch stores, moves and converts them, and computes with few ops; loops
// that know the type of their elements have no form for them. An op takes them if it is a loop over
// elements (whose kernel has a form or not), a view, made of other ops, or says `.any_dtype()`
// (settle_facts in facts.cpp); any other is refused here, in one place, before its forward can take
// the bytes for something else.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// Raises NotImplementedError if an operand, an argument `dtype` or `out` is of such a dtype and the
// op does not take it.
void check_wide_unsigned(const Call& c);

// What it says, with advice.
[[noreturn, gnu::cold]] void no_loop_for_wide_unsigned(const char* name, DType d);

inline void refuse_wide_unsigned(const Call& c) {
  if (!c.op.facts.to_any_dtype) check_wide_unsigned(c);
}

}  // namespace adjoint
