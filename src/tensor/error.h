// Errors (python/error.h) whose messages show shapes and dtypes.
#pragma once
#include "python/error.h"
#include "tensor/dims.h"
#include "tensor/dtype.h"

namespace adjoint {

inline std::ostream& operator<<(std::ostream& s, const Dims& d) { return s << to_string(d); }
inline std::ostream& operator<<(std::ostream& s, Span d) { return s << to_string(d); }
inline std::ostream& operator<<(std::ostream& s, DType d) { return s << name_of(d); }

}  // namespace adjoint
