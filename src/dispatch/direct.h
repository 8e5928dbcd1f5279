// The short way through an elementwise op of one or two operands: small contiguous tensors of one
// shape and dtype, or one tensor and a number. It is what most small programs spend their time in,
// so nothing is looked at that cannot matter. Every function here returns a new reference, or null
// when the general way (apply.cpp) is needed; nothing has happened then.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

TensorObject* direct_single(const Op& op, TensorObject* a);
// Arguments after the operands have their defaults.
TensorObject* direct_pair(const Op& op, TensorObject* a, TensorObject* b);
// A tensor and a number; `k` is the place of the tensor.
TensorObject* direct_number(const Op& op, TensorObject* t, const Value& number, int k);
// The same for operands in a list of arguments of any kind; the other arguments are looked at.
TensorObject* apply_direct(const Op& op, const Value* args);

// The backward of `x * y` for such tensors, in a pass that is not recorded: the last product is
// written over the gradient where that is `unread` afterwards. False when the rules have to run.
bool product_backward(const Op& op, Node* node, Tensor* grads, Tensor* result, bool unread);

}  // namespace adjoint
