// Which dtype the result of several operands has: PyTorch's rules.
#pragma once
#include "tensor/value.h"

namespace adjoint {

DType promote_types(DType a, DType b);
bool can_cast(DType from, DType to);
DType default_dtype();
void set_default_dtype(DType d);

// Operands fall into three ranks: tensors with axes, 0-d tensors, Python numbers. A lower rank only
// matters when its category (bool < int < float < complex) is higher than that of the ranks above
// it.
class ResultType {
 public:
  void add(const Value& v);  // a tensor or a number; anything else is ignored
  DType get() const;

 private:
  void join(int rank, DType d);
  DType rank_[3];
  bool seen_[3] = {false, false, false};
};

DType scalar_dtype(const Value& number);

}  // namespace adjoint
