// What is known of a transform of a given length before it runs: its factors and roots of unity.
//
// The engine works on *tiles*: as many transforms as a vector has lanes, side by side. Cell k of a
// tile holds element k of each of them, a vector of real parts and a vector of imaginary parts. So
// every step of the algorithm is written as for one transform, and roots of unity are the same for
// all lanes. A transform that is alone is cut into many short ones (Line).
//
//   TilePlan   short transforms: Stockham's algorithm (radix 2, 3, 4, 5, 7, 8 and other small odd
//              primes), or Bluestein's where a prime factor is large
//   Line       one long transform: n = rows * columns, both done on tiles, with roots between; or
//              Bluestein's algorithm over a Line of a better length
//   RealRoots  what turns a complex transform of half the length into a real one
//
// Read next: tile.h for what runs on tiles, transform.h for who cuts a tensor into tiles.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace adjoint::fft {

// One pass over a tile of n = radix * m * s cells.
struct Stage {
  int64_t radix, m, s;
  int64_t roots;   // where its roots of unity start: (radix - 1) for each p in 1 .. m - 1
  int64_t matrix;  // radix > 7: where its cosines and sines start
};

template <class T>
struct TilePlan {
  explicit TilePlan(int64_t n);

  int64_t n;
  std::vector<Stage> stages;
  std::vector<T> numbers;  // what stages point into, complex numbers as pairs
  // Bluestein's algorithm: a convolution of length inner->n.
  std::shared_ptr<const TilePlan> inner;
  std::vector<T> chirp, spectrum;

  int64_t cells() const { return inner ? inner->n : n; }  // of each of the two tiles it needs
  size_t bytes() const;
};

template <class T>
struct Line {
  explicit Line(int64_t n);

  int64_t n;
  int64_t rows = 0, columns = 0;
  std::shared_ptr<const TilePlan<T>> down, across;  // of length rows and of length columns
  // The roots between are products: cells of `lanes` for the columns of a group, and a number for
  // each group and row.
  std::vector<T> lane_roots, group_roots;
  std::shared_ptr<const Line> inner;
  std::vector<T> chirp, spectrum;

  size_t bytes() const;
};

// exp(-2 pi i k / n), k = 0 .. n / 4, n even.
template <class T>
struct RealRoots {
  explicit RealRoots(int64_t n);

  std::vector<T> roots;
  size_t bytes() const { return roots.size() * sizeof(T); }
};

// Plans that were used lately are kept, up to some megabytes.
template <class P>
std::shared_ptr<const P> plan_for(int64_t n);

// Whether a transform of this length alone is better done as a Line.
bool better_as_line(int64_t n);

}  // namespace adjoint::fft
