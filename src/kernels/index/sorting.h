// Sorting runs of elements. NaN counts as greater than any number, as in PyTorch; equal elements
// keep their order.
#pragma once
#include <cstdint>

#include "tensor/dtype.h"

namespace adjoint {

// Sorts `rows` rows of n contiguous elements: sorted values and their positions in the row. `keep`
// is how many of each row are wanted (n: all); values and positions have `keep` per row.
void sort_rows(const char* in, char* values, int64_t* positions, DType dtype, int64_t rows,
               int64_t n, int64_t keep, bool descending);

// One element of each row of n > 0, by its rank: the k-th in order, counted from 0, or the median (the
// lower one of two), which is a NaN of the row unless NaNs are passed over.
enum class Pick : uint8_t { Rank, Median, MedianOfNumbers };
void select_rows(const char* in, char* values, int64_t* positions, DType dtype, int64_t rows,
                 int64_t n, Pick pick, int64_t k);

// Where each of `count` values of a row belongs in a sorted row of n: the first place before which
// everything is smaller (right: not greater). `order`, if any, says which elements of the row come
// first, second, ...
void search_sorted(const char* row, const int64_t* order, int64_t n, const char* values,
                   int64_t count, DType dtype, bool right, int64_t* out);

}  // namespace adjoint
