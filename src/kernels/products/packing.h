// Bringing an input of a product into a form BLAS reads: as it lies if one stride is 1, else packed
// into scratch memory (odd or zero strides, 16-bit floats).
#pragma once
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "kernels/products/gemm.h"

namespace adjoint {

// A thread's own memory, since the allocator may not be used without the GIL. It is kept for the
// next product unless it is large. Null if there is no memory.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(data_); }
  char* get(size_t bytes) noexcept;
  void drop_if_large() noexcept;

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

// Element (i, j) is data[i * ld + j], or data[j * ld + i] if `trans`; in the compute dtype.
struct BlasOperand {
  const char* data = nullptr;
  int64_t ld = 0;
  bool trans = false;

  const char* at(int64_t row, int64_t col, size_t item) const {
    return data + (trans ? col * ld + row : row * ld + col) * static_cast<int64_t>(item);
  }
};

// Whether the matrix can be used where it lies; fills `out` if so.
inline bool as_it_lies(const Matrix& matrix, int64_t rows, int64_t cols,
                       BlasOperand& out) noexcept {
  // The stride along an axis of one element means nothing: let it be what BLAS wants.
  const int64_t row_stride = rows == 1 ? cols : matrix.row_stride;
  const int64_t col_stride = cols == 1 ? rows : matrix.col_stride;
  const auto blas_takes = [](int64_t ld, int64_t extent) { return ld >= extent && ld <= INT_MAX; };
  const auto* data = static_cast<const char*>(matrix.data);
  if ((cols == 1 || col_stride == 1) && blas_takes(row_stride, cols)) {
    out = {data, row_stride, false};
    return true;
  }
  if ((rows == 1 || row_stride == 1) && blas_takes(col_stride, rows)) {
    out = {data, col_stride, true};
    return true;
  }
  return false;
}

enum class OperandLayout { Any, RowMajor };

// The matrix as an operand in compute_dtype(dtype). `data` is null if there is no memory.
BlasOperand prepare(DType dtype, const Matrix& matrix, int64_t rows, int64_t cols,
                    OperandLayout layout, Scratch& scratch);

}  // namespace adjoint
