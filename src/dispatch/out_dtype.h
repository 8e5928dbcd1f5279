// Which dtype a tensor given as out= may have.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// Before the op runs: the argument `dtype`, if out= decides it. A complex input is left alone, since
// what becomes of its imaginary part would be nobody's choice.
void let_out_decide(const Op& op, Value* args, DType out);
// What elementwise ops refuse, which write into `out` themselves.
void check_out_dtype(const Op& op, const Value* args, DType out);
// Afterwards, for all others: RuntimeError unless a result of this dtype may be written into `out`.
void check_out_result(const Op& op, const Value* args, DType result, DType out);

}  // namespace adjoint
