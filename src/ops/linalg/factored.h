// LU factors and what several ops compute from them: see lu.cpp.
#pragma once
#include "ops/linalg/matrices.h"

namespace adjoint::matrices {

struct Lu {
  Tensor lu, pivots, info;
};
// Of the matrices of a, which may have any shape.
Lu factor_lu(T a);
// What a derivative rule needs of the factors, as Call::kept holds it.
inline Value kept_factors(const Lu& f) { return std::vector<Value>{f.lu, f.pivots}; }
// op(a)^-1 b, or b op(a)^-1 with left = false; op is the adjoint, or nothing.
// Pivots may be anybody's: those of lu_solve, or of a program from a file.
void check_pivots(T pivots, int64_t n);
Tensor solve_lu(T lu, T pivots, T b, bool left, bool adjoint);
// The same as an op whose derivatives are those of a^-1 b: the factors belong to `a`, and serve
// derivatives of every order.
inline Tensor solve_factored(T a, T b, const Value& kept, bool left, bool adjoint) {
  const std::vector<Value>& f = kept.list();
  return op<"_solve_factored">(a, b, f[0], f[1], left, adjoint);
}

}  // namespace adjoint::matrices
