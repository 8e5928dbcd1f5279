// Where entries of sparse tensors stand: their order, rows of them, products of patterns. Indices are
// int64 and were checked.
#pragma once
#include <vector>

#include "kernels/sparse/products.h"

namespace adjoint::sparse {

// The row-major position of each of n places; axis d of place k is indices[d * n + k].
void flat_positions(const int64_t* indices, int64_t n, const int64_t* shape, int axes,
                    int64_t* positions);
// Each greater than the one before.
bool ascending(const int64_t* positions, int64_t n);

// Where rows start, of n sorted row numbers; and back.
void row_starts(const int64_t* row, int64_t n, int64_t rows, int64_t* start);
void row_numbers(const int64_t* start, int64_t rows, int64_t* row);

// The same entries by columns: where columns start, the row of each entry, and where it was.
void by_columns(const Pattern& p, int64_t* start, int64_t* row, int64_t* from);

// Entries of equal position become one. `order` sorts the positions; out: which of the distinct
// places each entry belongs to, and the first entry of each.
void number_distinct(const int64_t* positions, const int64_t* order, int64_t n, int64_t* place,
                     std::vector<int64_t>& first);

// The pattern of a product, columns in order: where rows start, and columns.
void product_pattern(const Pattern& a, const Pattern& b, std::vector<int64_t>& start,
                     std::vector<int64_t>& column);
// Its values, for the pattern found above.
void product_values(DType dtype, const Pattern& a, const char* a_values, const Pattern& b,
                    const char* b_values, const Pattern& out, char* values);

}  // namespace adjoint::sparse
