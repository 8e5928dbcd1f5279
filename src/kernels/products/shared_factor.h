// A right factor that many products share: the weight of a recurrent layer, step after step. Products of
// a few rows spend a fifth of their time in bringing it into the order of the register tiles; here it
// is done once. Read next: shared_factor.cpp, panels.h.
#pragma once
#include "kernels/products/gemm.h"
#include "kernels/products/packing.h"

namespace adjoint {

class SharedFactor {
 public:
  // b: k x n. `rows` is what most products have: whether to pack depends on nothing else.
  SharedFactor(DType dtype, const Matrix& b, int64_t k, int64_t n, int64_t rows);

  // c = a @ b, or c += a @ b; a: m x k, c as in gemm().
  void product(int64_t m, const Matrix& a, char* c, int64_t ldc, bool add) const;

 private:
  void pack();

  DType dtype_;
  Matrix b_;
  int64_t k_, n_;
  const float* packed_ = nullptr;  // parts of k, one after the other; null: b is taken as it lies
  Scratch memory_;
};

}  // namespace adjoint
