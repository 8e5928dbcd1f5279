// What the distributions throw beside std::runtime_error.
#pragma once
#include <stdexcept>
#include <string>

#include "tensor/dtype.h"

namespace adjoint::random {

// The distribution has no meaning for this dtype; NotImplementedError in Python, as in PyTorch.
struct unsupported_dtype : std::runtime_error {
  unsupported_dtype(const char* function, DType dtype)
      : std::runtime_error(std::string("\"") + function + "\" not implemented for '" +
                           name_of(dtype) + "'") {}
};

}  // namespace adjoint::random
