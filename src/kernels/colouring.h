// Colourings of sparsity patterns: which columns of a matrix may be computed together.
//
// A pattern is given by its rows: where each starts, and the columns of its entries. Colours are
// counted from 0; a column without entries has -1. Both colourings are greedy: columns are taken in
// the given order, each gets the lowest colour that fits. Read next: python/adjoint/_colouring.py,
// which chooses the orders.
#pragma once
#include <cstdint>

namespace adjoint::colouring {

// Entries by row, or by column: those of line i are index[start[i]] to index[start[i + 1]].
struct Lines {
  int64_t count;
  const int64_t* start;
  const int64_t* index;
};

// Columns of one colour share no row: every entry stands alone in the sum of its colour's columns.
// Returns the number of colours.
int64_t colour_columns(const Lines& rows, int64_t columns, const int64_t* order, int64_t* colours);

// For a symmetric pattern, a star colouring: of neighbours i and j, either j is the only neighbour
// of i with its colour or i is the only one of j with its own. So each entry or its mirror image
// stands alone (Coleman and Moré 1984; Gebremedhin, Manne and Pothen 2005). Returns the number of
// colours.
int64_t colour_symmetric(const Lines& rows, const int64_t* order, int64_t* colours);

}  // namespace adjoint::colouring
