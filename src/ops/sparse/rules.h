// What ops do whose operands are sparse: `.sparse(sparse::mul)` in their blocks. Each rule computes with
// ordinary ops on entries (parts.h); what it does not know it refuses.
#pragma once
#include "dispatch/sparse_calls.h"

namespace adjoint::sparse {

using Rule = Value(const Op& op, Value* args);

// f(0) is 0, so only entries change. The second is for f(a + b) = f(a) + f(b): entries that stand in
// one place may stay apart.
Rule on_entries, linear_on_entries;
// elementwise.cpp
Rule add, sub, mul, div, rounded_div, pow;
// products.cpp
Rule matmul, addmm, linear;
// shapes.cpp
Rule transpose, permute, t, unsqueeze, select, index_select, cat, stack, unbind;
// whole.cpp
Rule sum_all, sum, clone, copy, zero, zeros_like, norm;

}  // namespace adjoint::sparse
