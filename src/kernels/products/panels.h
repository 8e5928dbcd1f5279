// Panels: float32 factors of a product in the order in which register tiles read them, and products of
// them. A panel is a few rows of a (or columns of b) side by side, element after element along k. See
// panel_tiles.h for the loops and shared_factor.cpp for who uses them.
#pragma once
#include <cstdint>

#include "kernels/products/gemm.h"
#include "kernels/products/packing.h"

namespace adjoint::panels {

inline constexpr int64_t kDepth =
    512;  // along k at a time: a panel of rows stays in the first cache

int tall();  // rows of a panel of a
int wide();  // columns of a panel of b, but of the last, which has as many vectors as it needs

// Floats that `rows` of a, or `columns` of b, take along `depth` elements of k.
int64_t size_of_rows(int64_t rows, int64_t depth);
int64_t size_of_columns(int64_t columns, int64_t depth);
// Packs them; returns the end of what was written.
float* pack_rows(const Matrix& a, int64_t rows, int64_t depth, float* to);
float* pack_columns(const Matrix& b, int64_t columns, int64_t depth, float* to);

// The elements from (row, column) on.
Matrix part(const Matrix& m, int64_t row, int64_t column);

// c = a @ b, or c += a @ b, of packed factors. Whole panels of c are written where they belong, what
// hangs over by way of `edge`. False if there is no memory.
bool multiply(const float* a, int64_t rows, const float* b, int64_t columns, int64_t depth,
              float* c, int64_t ldc, bool add, Scratch& edge);

}  // namespace adjoint::panels
