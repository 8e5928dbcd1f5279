// Products with a packed factor. See shared_factor.h.
#include "kernels/products/shared_factor.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "kernels/products/panels.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

constexpr int64_t kFewRows = 8;    // fewer are products with vectors
constexpr double kShare = 0x1p21;  // operations that are worth a second thread

}  // namespace

SharedFactor::SharedFactor(DType dtype, const Matrix& b, int64_t k, int64_t n, int64_t rows)
    : dtype_(dtype), b_(b), k_(k), n_(n) {
  if (dtype == DType::Float32 && rows >= kFewRows && k > 0 && n > 0) pack();
}

void SharedFactor::pack() {
  float* to = reinterpret_cast<float*>(
      memory_.get(static_cast<size_t>(panels::size_of_columns(n_, k_)) * 4));
  if (!to) throw std::bad_alloc();
  packed_ = to;
  const int64_t depth = panels::depth_of(k_);
  for (int64_t k = 0; k < k_; k += depth)
    to = panels::pack_columns(panels::part(b_, k, 0), n_, std::min(depth, k_ - k), to);
}

void SharedFactor::product(int64_t m, const Matrix& a, char* c, int64_t ldc, bool add) const {
  if (!packed_) return gemm(dtype_, m, n_, k_, a, b_, c, ldc, 1.0, add ? 1.0 : 0.0);
  if (m == 0) return;
  std::atomic<bool> ok = true;
  const auto columns = [&](int64_t first, int64_t count) {
    const int64_t whole = panels::depth_of(k_);
    const float* b = packed_;
    for (int64_t k = 0; k < k_; k += whole) {
      const int64_t depth = std::min(whole, k_ - k);
      float* to = reinterpret_cast<float*>(c) + first;
      if (!panels::multiply(panels::part(a, 0, k), m, b + first * depth, count, depth,
                            {to, ldc, add || k > 0}))
        ok = false;
      b += panels::size_of_columns(n_, depth);
    }
  };
  const double work = 2.0 * double(m) * double(n_) * double(k_);
  const int64_t wide = panels::wide();
  if (work > kShare && parallel::get_num_threads() > 1)
    parallel::parallel_for((n_ - 1) / wide + 1,
                           [&](int64_t v) { columns(v * wide, std::min(wide, n_ - v * wide)); });
  else
    columns(0, n_);
  if (!ok) throw std::bad_alloc();
}

}  // namespace adjoint
