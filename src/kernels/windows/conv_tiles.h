// What the driver of convolutions hands to its loops, which are built once per instruction set:
// kernels/isa/conv_tiles.cpp and kernels/isa/conv_weight_tiles.cpp, found by name as all kernels are. p[0] of the
// loop is the job.
#pragma once
#include "kernels/windows/conv_geometry.h"
#include "kernels/kernel.h"

namespace adjoint {

// The vectors of the loops that find_kernel chooses.
inline int vector_bytes(Isa isa) { return isa == Isa::V4 ? 64 : isa == Isa::V3 ? 32 : 16; }
inline int conv_lanes(DType d) {
  return vector_bytes(active_isa()) / static_cast<int>(item_size(d));
}
// Channels of a register tile: the weights of so many stand together.
inline int conv_rows(Isa isa) { return isa == Isa::V4 ? 8 : 4; }
// Channels of a tile that adds up the gradient of the weight.
inline int conv_weight_rows(Isa isa) { return isa == Isa::V4 ? 4 : 2; }
// A register tile of `left` channels has this many rows; those beyond have weights of zero.
inline int tile_rows(int64_t left, int most) {
  if (left >= most) return most;
  return static_cast<int>(left == 5 || left == 7 ? left + 1 : left);
}

// "conv_sums": sums of `length` products for `channels` channels at `count` places. The weights are
// blocks of conv_rows() channels [length][rows], the last one perhaps of fewer.
struct ConvSums {
  int64_t length = 0;
  const int32_t* offset = nullptr;
  const char *x = nullptr, *w = nullptr, *bias = nullptr;
  int64_t channels = 0;
  const VectorPlace* places = nullptr;
  int64_t count = 0;
  char* out = nullptr;
  int64_t out_plane = 0, out_step = 1;
  bool halves = false;  // out is float16, of sums in float32 (V4 only)
};

// "conv_products": adds to dw[m][t] the sum over places of g[m] * x[offset[t]], for up to
// conv_weight_rows() channels m. Sums are taken over slices of the places, one after the other.
struct ConvProducts {
  int64_t length = 0;  // how many offsets
  const int32_t* offset = nullptr;
  const char* x = nullptr;
  int64_t channels = 0;
  const char* g = nullptr;
  int64_t g_plane = 0;
  const VectorPlace* places = nullptr;
  int64_t count = 0, slice = 0;
  char* gathered = nullptr;  // slice * conv_weight_rows() vectors
  char* dw = nullptr;
  int64_t dw_row = 0;
};

}  // namespace adjoint
