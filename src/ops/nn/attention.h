// Attention written from ops, for what is not done by tiles.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

// Of heads [N, H, L, E], whose queries may share heads of keys; see attention.cpp.
Tensor attention_from_ops(const Tensor& q, const Tensor& k, const Tensor& v, const Value& mask,
                          double dropout, bool causal, double scale);

}  // namespace adjoint
