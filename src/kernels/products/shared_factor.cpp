// Products with a packed factor. See shared_factor.h.
#include "kernels/products/shared_factor.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "kernels/products/panels.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

using panels::kDepth;

constexpr int64_t kFewRows = 8;    // fewer are products with vectors
constexpr double kShare = 0x1p21;  // operations that are worth a second thread

struct ThreadScratch {
  Scratch rows, edge;
};
thread_local ThreadScratch scratch;

float* room(Scratch& memory, int64_t floats) {
  char* p = memory.get(static_cast<size_t>(floats) * 4);
  if (!p) throw std::bad_alloc();
  return reinterpret_cast<float*>(p);
}

}  // namespace

SharedFactor::SharedFactor(DType dtype, const Matrix& b, int64_t k, int64_t n, int64_t rows)
    : dtype_(dtype), b_(b), k_(k), n_(n) {
  if (dtype == DType::Float32 && rows >= kFewRows && k > 0 && n > 0) pack();
}

void SharedFactor::pack() {
  float* to = room(memory_, panels::size_of_columns(n_, k_));
  packed_ = to;
  for (int64_t k = 0; k < k_; k += kDepth)
    to = panels::pack_columns(panels::part(b_, k, 0), n_, std::min(kDepth, k_ - k), to);
}

void SharedFactor::product(int64_t m, const Matrix& a, char* c, int64_t ldc, bool add) const {
  if (!packed_) return gemm(dtype_, m, n_, k_, a, b_, c, ldc, 1.0, add ? 1.0 : 0.0);
  if (m == 0) return;
  float* rows = room(scratch.rows, panels::size_of_rows(m, std::min(kDepth, k_)));
  const double work = 2.0 * static_cast<double>(m) * static_cast<double>(n_);
  const int64_t wide = panels::wide();
  const float* b = packed_;
  std::atomic<bool> ok = true;
  for (int64_t k = 0; k < k_; k += kDepth) {
    const int64_t depth = std::min(kDepth, k_ - k);
    panels::pack_rows(panels::part(a, 0, k), m, depth, rows);
    const auto columns = [&](int64_t first, int64_t count) {
      float* to = reinterpret_cast<float*>(c) + first;
      if (!panels::multiply(rows, m, b + first * depth, count, depth, to, ldc, add || k > 0,
                            scratch.edge))
        ok = false;
    };
    if (work * static_cast<double>(depth) > kShare)
      parallel::parallel_for((n_ - 1) / wide + 1,
                             [&](int64_t v) { columns(v * wide, std::min(wide, n_ - v * wide)); });
    else
      columns(0, n_);
    b += panels::size_of_columns(n_, depth);
  }
  if (!ok) throw std::bad_alloc();
}

}  // namespace adjoint
