// What is done to one tile: read it from memory, transform it, write it back. The code is in
// kernels/isa/fft.cpp, built once per instruction set; tile_functions() chooses. Read plan.h first.
#pragma once
#include "kernels/fft/plan.h"

namespace adjoint::fft {

// Where the cells of a tile lie in memory. Element k of lane l has its real part at
// base[lane[l] + k * step] and its imaginary part `imag` further on; all in numbers of type T.
template <class T>
struct Place {
  T* base;
  const int64_t* lane;
  int64_t step;
  int64_t imag;  // 0: there is none
};

// How cells and elements belong together.
enum class Form : uint8_t {
  Plain,     // cell k is element k
  HalfEven,  // elements 0 .. n/2 of a real signal's spectrum; the plan has n/2 cells
  HalfOdd,   // the same for odd n; the plan has n cells
};

template <class T>
struct TileJob {
  const TilePlan<T>* plan;
  Place<const T> in;
  Place<T> out;
  int lanes;  // in use
  // The inverse transform is the forward one with real and imaginary parts swapped before and after.
  bool swap_in, swap_out;
  Form read = Form::Plain, write = Form::Plain;
  T scale = 1;
  const T* real_roots = nullptr;  // for HalfEven
  // Cell k is multiplied by lane_roots[k] (a cell) and group_roots[k] before it is written.
  const T *lane_roots = nullptr, *group_roots = nullptr;
  // Where the lanes of the next tile start, to be fetched early; may be none.
  const int64_t* next = nullptr;
  T* scratch;  // two tiles, aligned to 64 bytes
};

// Cells of each of the two tiles that a job needs; half a spectrum has one more than the plan.
template <class T>
int64_t tile_cells(const TilePlan<T>& plan) {
  return plan.cells() + 1;
}

struct TileFunctions {
  int lanes_f32, lanes_f64;
  void (*run_f32)(const TileJob<float>&);
  void (*run_f64)(const TileJob<double>&);
};
// Of the best instruction set that this processor has.
const TileFunctions& tile_functions();

template <class T>
int tile_lanes() {
  return sizeof(T) == 4 ? tile_functions().lanes_f32 : tile_functions().lanes_f64;
}
inline void run_tile(const TileJob<float>& j) { tile_functions().run_f32(j); }
inline void run_tile(const TileJob<double>& j) { tile_functions().run_f64(j); }

}  // namespace adjoint::fft
