// Walking over the tensors among the arguments of an op, lists of tensors included.
#pragma once
#include "dispatch/op.h"

namespace adjoint {

template <class F>
void each_tensor(const Value& v, F&& f) {
  if (v.is_tensor()) {
    f(v.tensor());
  } else if (v.is_tensors()) {
    for (const Tensor& t : v.tensors()) {
      if (t) f(t);
    }
  }
}

template <class F>
void each_tensor(const Op& op, const Value* args, F&& f) {
  for (int k = 0; k < op.tensor_arguments; ++k) each_tensor(args[op.tensor_at[k]], f);
}

// Whether `test(tensor, argument)` holds for one of them; no reference is taken.
template <class F>
bool any_tensor(const Op& op, const Value* args, F&& test) {
  for (int k = 0; k < op.tensor_arguments; ++k) {
    const Value& v = args[op.tensor_at[k]];
    if (v.is_tensor()) {
      if (test(v.object(), op.tensor_at[k])) return true;
    } else if (v.is_tensors()) {
      for (const Tensor& t : v.tensors()) {
        if (t && test(t.get(), op.tensor_at[k])) return true;
      }
    }
  }
  return false;
}

// The value with f(t) in place of each tensor t.
template <class F>
Value map_tensors(const Value& v, F&& f) {
  if (v.is_tensor()) return f(v.tensor());
  if (!v.is_tensors()) return v;
  Tensors ts;
  for (const Tensor& t : v.tensors()) ts.push_back(t ? f(t) : t);
  return Value(std::move(ts));
}

}  // namespace adjoint
