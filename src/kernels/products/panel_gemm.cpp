// The driver of float32 products by panels. See panel_gemm.h.
#include "kernels/products/panel_gemm.h"

#include <algorithm>
#include <atomic>

#include "kernels/kernel.h"
#include "kernels/products/panels.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

constexpr int64_t kFewestRows = 256;  // of a chunk: a panel of b is packed for each
// Below these OpenBLAS has loops that pack nothing.
constexpr int64_t kLeastSide = 32;
constexpr double kLeastWork = 0x1p20;

}  // namespace

bool suits_panels(DType dtype, int64_t m, int64_t n, int64_t k, Scale alpha, Scale beta) {
  return dtype == DType::Float32 && active_isa() == Isa::V4 && m >= kLeastSide && n >= kLeastSide &&
         static_cast<double>(m) * double(n) * double(k) >= kLeastWork && alpha == Scale(1.0) &&
         (beta == Scale(0.0) || beta == Scale(1.0));
}

bool panel_product(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c,
                   int64_t ldc, bool add, const float* start, bool share) {
  const int64_t wide = panels::wide(), whole = panels::depth_of(k), across = (n - 1) / wide + 1;
  // Rows are cut where there are few panels.
  const int64_t threads = share ? parallel::get_num_threads() : 1;
  const int64_t wanted = threads > 1 ? (4 * threads - 1) / across + 1 : 1;
  const int64_t down = std::clamp<int64_t>(m / kFewestRows, 1, wanted);
  const int64_t unit = panels::tall(), rows = ((m - 1) / down / unit + 1) * unit;
  std::atomic<bool> ok = true;
  // Part by part along k: as much of a stays in a cache while all panels pass.
  for (int64_t i = 0; i < k; i += whole) {
    const int64_t depth = std::min(whole, k - i);
    const auto chunk = [&](int64_t number) {
      const int64_t row = number / across * rows, column = number % across * wide;
      const int64_t some = std::min(wide, n - column);
      const auto bytes = static_cast<size_t>(panels::size_of_columns(some, depth)) * 4;
      float* packed = reinterpret_cast<float*>(panels::columns_scratch().get(bytes));
      if (packed) panels::pack_columns(panels::part(b, i, column), some, depth, packed);
      if (!packed ||
          !panels::multiply(panels::part(a, row, i), std::min(rows, m - row), packed, some, depth,
                            {c + row * ldc + column, ldc, add || i > 0,
                             start && i == 0 ? start + column : nullptr}))
        ok = false;
    };
    const int64_t chunks = ((m - 1) / rows + 1) * across;
    if (threads > 1)
      parallel::parallel_for(chunks, chunk);
    else
      for (int64_t number = 0; number < chunks; ++number) chunk(number);
  }
  return ok;
}

}  // namespace adjoint
