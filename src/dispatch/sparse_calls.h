// Calls of ops with sparse operands, as apply.cpp hands them over. Every op comes through there, so
// this is the one place that refuses: an op whose block neither knows sparse tensors
// (`.takes_sparse()`) nor says what to do with them (`.sparse(rule)`) names itself and to_dense().
#pragma once
#include "dispatch/op.h"
#include "tensor/sparse.h"

namespace adjoint {

// Does an argument of an op that does not take them? To be asked only if g_sparse is not zero.
bool any_sparse(const Op& op, const Value* args);
Value apply_sparse(const Op& op, Value* args);
Tensor apply_inplace_sparse(const Op& op, Value* args);
// For rules that do not know these operands together.
[[noreturn]] void refuse_sparse(const Op& op, const Value* args);
[[noreturn]] void refuse_sparse_out(const Op& op);

}  // namespace adjoint
