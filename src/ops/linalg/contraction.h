// Contractions: products of tensors whose axes carry labels, summed over the labels that are not
// wanted in the result. einsum, tensordot and inner are made of it.
#pragma once
#include <string>

#include "dispatch/op.h"

namespace adjoint {

// A tensor and one label per axis.
struct Labelled {
  Tensor t;
  std::string labels;

  int axis(char label) const { return static_cast<int>(labels.find(label)); }
  bool has(char label) const { return labels.find(label) != std::string::npos; }
  int64_t size(char label) const { return t.size(axis(label)); }
};

// The axes in the order of `order`, which has the same labels.
Tensor arranged(const Labelled& a, const std::string& order);
// Sums over every axis whose label is not in `wanted`; integers become int64 unless a dtype is
// given.
Labelled summed_to(Labelled a, const std::string& wanted, const Value& dtype = {});
// The product of two tensors, summed over what is not in `wanted`. An axis of length one stands for
// as many equal entries as the other tensor has.
Labelled contract(Labelled a, Labelled b, const std::string& wanted);

}  // namespace adjoint
