// Products of sparse and dense matrices: rows of entries (CSR) times rows of numbers.
//
//   multiply    out = S d           a row of `out` is a sum of rows of d
//   transposed  out = S^T d         rows of d are added to rows of `out`
//   sample      values of a b^T at the places of S
//
// Each element of a result is summed in the order of the entries, whatever the number of threads.
// The loops for float32 and float64 are built per instruction set (kernels/isa/sparse_rows.cpp), which take
// p[0], a Rows; other dtypes have plain ones. Read next: ops/sparse/products.cpp, who calls them.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"

namespace adjoint::sparse {

// S by rows: entries start[i] ... start[i + 1] - 1 belong to row i.
struct Pattern {
  const int64_t* start = nullptr;
  const int64_t* column = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t entries() const { return start[rows]; }
};

// What a loop works on: rows [begin, end) of the pattern, columns [left, right) of the dense sides.
struct Rows {
  Pattern at;
  char* values = nullptr;       // of S: read by products, written by sample
  const char* dense = nullptr;  // the right factor, rows of `width`
  const char* other = nullptr;  // sample: the left factor
  char* out = nullptr;          // rows of `width`, zeros at first for `transposed`
  int64_t width = 0, begin = 0, end = 0, left = 0, right = 0;
};

void multiply(DType dtype, Rows r);
void transposed(DType dtype, Rows r);
void sample(DType dtype, Rows r);
// Whether these are written for a dtype.
bool has_products(DType dtype);

}  // namespace adjoint::sparse
