// Packing the inputs of products; see packing.h.
#include "kernels/products/packing.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/convert.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

constexpr size_t kKeep = size_t{64} << 20;

}  // namespace

char* Scratch::get(size_t bytes) noexcept {
  if (bytes > size_ || !data_) {
    std::free(data_);
    size_ = (bytes + 4095) & ~size_t{4095};
    data_ = static_cast<char*>(std::aligned_alloc(64, size_ ? size_ : (size_ = 4096)));
    if (!data_) size_ = 0;
  }
  return data_;
}

void Scratch::drop_if_large() noexcept {
  if (size_ <= kKeep) return;
  std::free(data_);
  data_ = nullptr;
  size_ = 0;
}

BlasOperand prepare(DType dtype, const Matrix& matrix, int64_t rows, int64_t cols,
                    OperandLayout layout, Scratch& scratch) {
  BlasOperand out;
  const DType to = compute_dtype(dtype);
  if (to == dtype && as_it_lies(matrix, rows, cols, out) &&
      !(out.trans && layout == OperandLayout::RowMajor))
    return out;
  const auto item = static_cast<int64_t>(item_size(to));
  const auto from_item = static_cast<int64_t>(item_size(dtype));
  int64_t bytes;
  if (__builtin_mul_overflow(rows, cols, &bytes) || __builtin_mul_overflow(bytes, item, &bytes))
    return {};
  char* packed = scratch.get(static_cast<size_t>(bytes));
  if (!packed) return {};
  // Copied along the axis that lies closer together.
  const bool trans =
      layout == OperandLayout::Any && std::abs(matrix.row_stride) < std::abs(matrix.col_stride);
  const int64_t outer = trans ? cols : rows, inner = trans ? rows : cols;
  const int64_t outer_stride = (trans ? matrix.col_stride : matrix.row_stride) * from_item;
  const int64_t inner_stride = (trans ? matrix.row_stride : matrix.col_stride) * from_item;
  const auto* from = static_cast<const char*>(matrix.data);
  parallel::parallel_ranges(outer, std::max<int64_t>(1, 32768 / inner),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t i = begin; i < end; ++i)
                                copy_run(packed + i * inner * item, item, to,
                                         from + i * outer_stride, inner_stride, dtype, inner);
                            });
  return {packed, inner, trans};
}

}  // namespace adjoint
