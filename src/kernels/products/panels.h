// Products of float32 by register tiles. Columns of b are packed into panels: a few columns side by side,
// row after row along k, in the order in which the tiles read them. Rows of a are read where they lie,
// element by element: packing them would cost as much as a tenth of the product. See panel_tiles.h for the
// loops, panel_gemm.cpp and shared_factor.cpp for who uses them.
#pragma once
#include <cstdint>

#include "kernels/products/gemm.h"
#include "kernels/products/packing.h"

namespace adjoint::panels {

// Along k at most at a time: a panel of b stays in the second cache and the sums of c are loaded seldom.
inline constexpr int64_t kDepth = 384;
// Equal shares of k rather than a small rest.
int64_t depth_of(int64_t k);

int tall();  // rows of a tile
int wide();  // columns of a panel, but of the last, which has as many vectors as it needs

// The thread's memory for packed columns: one product is under way in a thread.
Scratch& columns_scratch();

// Floats that `columns` of b take along `depth` elements of k.
int64_t size_of_columns(int64_t columns, int64_t depth);
// Packs them; returns the end of what was written.
float* pack_columns(const Matrix& b, int64_t columns, int64_t depth, float* to);

// The elements from (row, column) on.
Matrix part(const Matrix& m, int64_t row, int64_t column);

// Can the rows of a be read where they lie?
bool lie_well(const Matrix& a, int64_t rows);

// Where a product goes: c = a @ b, or c += a @ b; `row`, if there is one, is added to every row. `halves`: the
// results go there as float16, and c is only what they are added to (see panel_tiles.h).
struct Into {
  float* c;
  int64_t ldc;
  bool add;
  const float* row = nullptr;
  half_t* halves = nullptr;
  int64_t ldh = 0;
};

// With b packed. Rows that do not lie well are packed too; false if there is no memory. The order of every
// sum depends on `depth` only.
bool multiply(const Matrix& a, int64_t rows, const float* b, int64_t columns, int64_t depth,
              const Into& into);

}  // namespace adjoint::panels
