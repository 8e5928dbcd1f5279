// Attention of one head: softmax(scale * q k^T + mask) v and its gradients, tile by tile. No more of
// the matrix of weights exists at a time than one tile; backward computes them again from the
// logarithms of their sums that forward leaves.
//
// The loops `attention_forward` and `attention_backward` are built per instruction set
// (isa/attention.cpp) and take p[0], a Head, and p[1], scratch memory. Read next: isa/tile_product.h,
// then ops/nn/attention.cpp for who calls them.
#pragma once
#include <cstdint>

namespace adjoint::attention {

// A matrix whose rows are contiguous; the next row begins `row` elements later.
struct Rows {
  char* data = nullptr;
  int64_t row = 0;
};

struct Head {
  Rows q, k, v, out;     // queries x width, keys x width, keys x out_width, queries x out_width
  Rows g, dq, dk, dv;    // backward: the gradient of `out`, and those it gives
  char* logs = nullptr;  // of the sums of exponentials, one for each query
  const char* added = nullptr;            // a mask that is added to the scores ...
  const uint8_t* kept = nullptr;          // ... or says which of them count
  int64_t mask_row = 0, mask_column = 0;  // in elements; 0 for a mask that repeats itself
  int64_t queries = 0, keys = 0, width = 0, out_width = 0;
  double scale = 1;
  bool causal = false;  // query i sees keys 0 ... i
  bool first = true;    // backward: dk and dv hold nothing yet
};

// Queries and keys of a tile.
inline constexpr int64_t kTileRows = 64, kTileColumns = 128;

// Elements of scratch that a head needs, whatever the instruction set: rows of whole vectors.
inline constexpr int64_t kWidestVector = 16;
inline int64_t whole_vectors(int64_t n) {
  return (n + kWidestVector - 1) / kWidestVector * kWidestVector;
}
// Keys (and values) as columns: packed once for a head.
inline int64_t packed_size(int64_t keys, int64_t width) { return width * whole_vectors(keys); }
inline int64_t forward_scratch(const Head& h) {
  return kTileRows * (kTileColumns + whole_vectors(h.out_width) + 2);
}
inline int64_t backward_scratch(const Head& h) {
  return packed_size(h.keys, h.width) + packed_size(h.keys, h.out_width) +
         2 * kTileRows * kTileColumns + h.queries;
}

}  // namespace adjoint::attention
