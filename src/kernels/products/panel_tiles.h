// What the drivers of products by register tiles hand to the loops of kernels/isa/half_tiles.cpp: of 16-bit floats
// (half_gemm.h) and of float32 (panels.h). p[0] of a loop is the job. A `unit` is what one step over k reads of a
// row: a float32, or a pair of bfloat16.
#pragma once
#include "kernels/kernel.h"

namespace adjoint {

inline constexpr int kTileVectors = 3;
// Rows and columns of a register tile: of a panel of a and of one of b.
inline int panel_rows(Isa isa) { return isa == Isa::V4 ? 8 : 4; }
inline int panel_columns(Isa isa) { return isa == Isa::V4 ? 48 : isa == Isa::V3 ? 24 : 12; }

// "float_tiles": c = a @ b, or c += a @ b, for one panel of columns of b: [depth][vectors]. Rows of a lie
// where they lie, with a stride of 1 along k or from row to row; a tile reads panel_rows() of them, which
// must be there. Sums run along k in order, whatever the tiles.
struct FloatTiles {
  int64_t depth = 0, rows = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_step = 0;  // from row to row, and along k
  int64_t a_panel = 0;  // packed: from one panel of rows to the next, the last filled up; else 0
  const float* b = nullptr;
  int vectors = kTileVectors, last = 0;  // of the panel; lanes of the last one that c has
  float* c = nullptr;
  int64_t ldc = 0;
  bool add = false;
  const float* row = nullptr;  // added to every row of c, which is not added to then
  half_t* halves = nullptr;    // where the results go as float16, instead of to c (V4 only)
  int64_t ldh = 0;
};

// "pair_tiles" of BFloat16, in units of pairs: adds to c, or writes it. a is panels of panel_rows() rows
// [units][rows], b panels of panel_columns() columns; the last ones are as wide, with zeros.
struct PairTiles {
  int64_t units = 0, row_panels = 0, column_panels = 0;
  const char *a = nullptr, *b = nullptr;
  float* c = nullptr;
  int64_t ldc = 0;
  bool add = false;
};

// "panel_pack" of Float16, BFloat16 and Float32 (to float32) and "half_pairs" of BFloat16: `lines` rows of a or
// columns of b, up to `width`, over `count` elements along k, to [units][width]. Strides in elements.
struct PanelPack {
  const char* from = nullptr;
  int64_t line_stride = 0, step = 0;  // between lines, and along k
  int64_t lines = 0, width = 0, count = 0;
  char* to = nullptr;
};

// "half_dots": out[i] = the sum over k of rows[i][k] * x[k]; "half_axpy": out[i] += x[k] * rows[k][i]
// for all k. Rows are 16-bit floats, contiguous; x and out are float32.
struct HalfVector {
  const char* rows = nullptr;
  int64_t stride = 0;             // between rows
  int64_t length = 0, count = 0;  // of a row; how many
  const float* x = nullptr;
  float* out = nullptr;
};

}  // namespace adjoint
