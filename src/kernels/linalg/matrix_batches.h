// How the batches of linalg.h are written: the element type of a dtype, scratch memory of a thread,
// and the sharing out of matrices. Read linalg.h first.
#pragma once
#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>
#include <new>
#include <stdexcept>

#include "kernels/linalg/lapack.h"
#include "kernels/linalg/linalg.h"
#include "kernels/products/packing.h"
#include "parallel/pool.h"

namespace adjoint::linalg {

// Calls f with a value of the element type.
template <class F>
decltype(auto) with_element(DType d, F&& f) {
  blas::use_one_thread();
  switch (d) {
    case DType::Float32:
      return f(float{});
    case DType::Float64:
      return f(double{});
    case DType::Complex64:
      return f(lapack::C64{});
    case DType::Complex128:
      return f(lapack::C128{});
    default:
      throw std::invalid_argument("linear algebra is done in float32, float64 or complex numbers");
  }
}

// LAPACK counts in ints, and fails on leading dimensions below 1.
inline int size(int64_t n) {
  if (n > INT_MAX) throw std::invalid_argument("a matrix has more than 2^31 - 1 rows or columns");
  return static_cast<int>(n);
}
inline int leading(int64_t rows) { return size(std::max<int64_t>(rows, 1)); }

inline bool is_small(DType d, int64_t n) { return n <= small::kLargest && !is_complex(d); }

// Working memory of a thread: arrays one after the other in one piece, which the next call may use
// again; allocate() is false if there is none. (One piece for all: thread-locals of this library live
// where few fit.)
template <class T>
struct Piece {
  int64_t count;
  T* data = nullptr;
  explicit Piece(int64_t n) : count(std::max<int64_t>(n, 1)) {}
  size_t bytes() const { return (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64; }
};
char* scratch_memory(size_t bytes) noexcept;  // matrix_copies.cpp
template <class... P>
bool allocate(P&... pieces) {
  char* at = scratch_memory((pieces.bytes() + ...));
  if (!at) return false;
  auto take = [&](auto& piece) {
    piece.data = reinterpret_cast<decltype(piece.data)>(at);
    at += piece.bytes();
  };
  (take(pieces), ...);
  return true;
}

// f(begin, end) on pieces of the batch, each worth a thread's while: `work` is what one matrix
// costs, in operations. f returns false if there is no memory.
template <class F>
void share(int64_t count, double work, F&& f) {
  constexpr double kPiece = 0x1p17;
  int64_t grain = static_cast<int64_t>(kPiece / std::max(work, 1.0));
  grain = std::max<int64_t>(grain, 1);
  if (grain > 16) grain = grain / 16 * 16;  // whole vectors of small matrices
  std::atomic<bool> ok = true;
  parallel::parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
    if (!f(begin, end)) ok = false;
  });
  if (!ok) throw std::bad_alloc();
}
inline double cube(int64_t n) {
  const auto x = static_cast<double>(n);
  return x * x * x;
}

// One matrix into columns. Square pieces: a few rows and a few columns at a time stay in the cache.
template <class T>
void copy_columns(int64_t m, int64_t n, const T* from, int64_t row, int64_t col, T* to) {
  constexpr int64_t kTile = 16;
  if (row == 1 && m > 1) {
    for (int64_t j = 0; j < n; ++j) std::copy_n(from + j * col, m, to + j * m);
    return;
  }
  for (int64_t j0 = 0; j0 < n; j0 += kTile) {
    const int64_t j1 = std::min(n, j0 + kTile);
    for (int64_t i0 = 0; i0 < m; i0 += kTile) {
      const int64_t i1 = std::min(m, i0 + kTile);
      for (int64_t j = j0; j < j1; ++j)
        for (int64_t i = i0; i < i1; ++i) to[j * m + i] = from[i * row + j * col];
    }
  }
}

// How much working memory a routine asked for in its first element.
template <class T>
int asked(T answer) {
  const double n = std::real(answer);
  // In float32 large numbers were rounded, perhaps down.
  return static_cast<int>(std::min(n * (1 + 0x1p-22) + 1, double(INT_MAX)));
}

}  // namespace adjoint::linalg
