// Which elements of an axis a place between them is made of, and how they are weighed: the part of
// grid_sample that is the same for images and volumes.
//
// The loops `grid_axis` (places along one axis) and `grid_combine` (all axes) are in
// kernels/isa/sample.cpp, with those that use their tables.
#pragma once
#include <cstdint>

namespace adjoint::grid {

enum Mode : int { Bilinear, Nearest, Bicubic };
enum Padding : int { Zeros, Border, Reflection };

struct Settings {
  int mode = Bilinear, padding = Zeros;
  bool align_corners = false;
  int taps() const { return mode == Bilinear ? 2 : mode == Nearest ? 1 : 4; }
};

// Places of a tile. Coordinates lie `stride` elements apart in the grid.
inline constexpr int64_t kTile = 256;
inline constexpr int kMostTaps = 16, kMostAxes = 3;

// One axis: tables [taps][kTile] of elements (-1 outside), weights and their slopes by the grid's
// coordinate.
template <class S>
struct AxisTables {
  int32_t at[4][kTile];
  S weight[4][kTile], slope[4][kTile];
};

// All axes: tables [combination of taps][kTile]; slopes for each axis.
template <class S>
struct Tables {
  AxisTables<S> axis[kMostAxes];
  int32_t at[kMostTaps][kTile];
  S weight[kMostTaps][kTile];
  S slope[kMostAxes][kMostTaps][kTile];
  int64_t taps = 0;
};

struct Places {
  Settings how;
  int64_t axes = 2, size[kMostAxes] = {};  // of the input, the last axis first
  bool with_slopes = false;
};

}  // namespace adjoint::grid
