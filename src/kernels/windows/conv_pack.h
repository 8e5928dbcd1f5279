// Copying channels into zero-padded planes, and weights into the order of register tiles.
#pragma once
#include "kernels/windows/conv_geometry.h"

namespace adjoint {

// Of zeros behind the planes: what the last vector reads past their end.
inline int64_t reserve_of_planes(int lanes) { return 2 * lanes; }

// One channel of a source of `size`, whose element 0 is at `from`, into the planes of `g` for a
// block with this origin. Everything is written, zeros included. `type` is float32 or float64.
void pack_channel(char* to, DType type, const Geometry& g, const char* from, DType from_type,
                  const Axes3& strides, const Axes3& size, const Axes3& origin);

// Pairs of bfloat16 from two arrays of them as float32: those of `to` come first, and those of
// `second`, or zeros if it is null, behind.
void join_pairs(char* to, const char* second, int64_t count);

// The taps of a pass of `rows` channels from [rows][channels][taps], by strides: [channels][taps]
// [rows], with zeros up to `padded` rows.
void pack_weight(char* to, DType type, const PlanePass& p, const char* w, int64_t rows,
                 int64_t padded, int64_t row_stride, int64_t channels, int64_t channel_stride);

}  // namespace adjoint
