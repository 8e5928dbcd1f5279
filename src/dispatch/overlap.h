// Reading memory that is being written. Every op that writes into given memory (in place, out=) asks
// here for what it reads beside it, so that results are those of operands copied beforehand.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// Whether two tensors may have bytes in common: those from the first to the last element of each.
bool share_bytes(const TensorObject* a, const TensorObject* b);

// `from`, or a copy of it if it shares memory with `to`: for writes that go to any place of `to`.
Tensor apart(const Tensor& from, const Tensor& to);

// The same for writes that go element by element: where each element of `from` is read at the place
// to which the result of it goes, and no other element has that place, there is nothing to copy.
Tensor in_step(const Tensor& from, const Tensor& to);

// Raises if `out` shares memory with an argument of an op whose block says `.out_apart()`. Only what is dense is looked at: others may be interleaved, and are read first.
void refuse_shared_out(const Op& op, const Value* args, const Tensor& out);

}  // namespace adjoint
