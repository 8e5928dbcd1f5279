// Products with a packed factor. See shared_factor.h.
#include "kernels/products/shared_factor.h"

#include <algorithm>
#include <new>

#include "kernels/products/half_tiles.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

constexpr int64_t kDepth = 512;    // of a block along k: a panel of rows stays in the first cache
constexpr int64_t kFewRows = 8;    // fewer are products with vectors
constexpr double kShare = 0x1p21;  // operations that are worth a second thread

struct ThreadScratch {
  Scratch rows, edge;
};
thread_local ThreadScratch scratch;

void call(const Kernel& kernel, void* job) {
  char* const p[] = {static_cast<char*>(job)};
  kernel.loop[static_cast<int>(DType::Float32)](p, 1);
}

int64_t panels(int64_t lines, int width) { return (lines - 1) / width + 1; }

// Lines (rows of a, columns of b) over a block of k, as panels of `width`.
char* pack(const char* from, int64_t line_stride, int64_t step, int64_t lines, int64_t depth,
           int width, char* to) {
  static const Kernel& kernel = *find_kernel("half_pack");
  for (int64_t i = 0; i < lines; i += width, to += depth * width * 4) {
    HalfPack job{from + i * line_stride * 4,
                 line_stride,
                 step,
                 std::min<int64_t>(width, lines - i),
                 width,
                 depth,
                 to};
    call(kernel, &job);
  }
  return to;
}

char* room(Scratch& memory, int64_t floats) {
  char* p = memory.get(static_cast<size_t>(floats) * 4);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

// The rows of one product, packed.
struct SharedFactor::Rows {
  int64_t count;
  const char* packed;
};

SharedFactor::SharedFactor(DType dtype, const Matrix& b, int64_t k, int64_t n, int64_t rows)
    : dtype_(dtype), b_(b), k_(k), n_(n) {
  if (dtype == DType::Float32 && rows >= kFewRows && k > 0 && n > 0) pack_all();
}

void SharedFactor::pack_all() {
  const int wide = half_columns(active_isa());
  char* to = room(memory_, panels(n_, wide) * wide * k_);
  packed_ = to;
  for (int64_t k = 0; k < k_; k += kDepth) {
    const char* from = static_cast<const char*>(b_.data) + k * b_.row_stride * 4;
    to = pack(from, b_.col_stride, b_.row_stride, n_, std::min(kDepth, k_ - k), wide, to);
  }
}

void SharedFactor::product(int64_t m, const Matrix& a, char* c, int64_t ldc, bool add) const {
  if (!packed_) return gemm(dtype_, m, n_, k_, a, b_, c, ldc, 1.0, add ? 1.0 : 0.0);
  if (m == 0) return;
  const int tall = half_rows(active_isa());
  char* to = room(scratch.rows, panels(m, tall) * tall * k_);
  const Rows rows{m, to};
  for (int64_t k = 0; k < k_; k += kDepth) {
    const char* from = static_cast<const char*>(a.data) + k * a.col_stride * 4;
    to = pack(from, a.row_stride, a.col_stride, m, std::min(kDepth, k_ - k), tall, to);
  }
  const int64_t across = panels(n_, half_columns(active_isa()));
  const auto part = [&](int64_t v) { panel(rows, v, reinterpret_cast<float*>(c), ldc, add); };
  if (2.0 * static_cast<double>(m) * static_cast<double>(n_) * static_cast<double>(k_) > kShare)
    parallel::parallel_for(across, part);
  else
    for (int64_t v = 0; v < across; ++v) part(v);
}

// One panel of columns: whole tiles go where they belong, what hangs over goes by way of scratch memory.
void SharedFactor::panel(const Rows& a, int64_t v, float* c, int64_t ldc, bool add) const {
  static const Kernel& tiles = *find_kernel("half_tiles");
  const int tall = half_rows(active_isa()), wide = half_columns(active_isa());
  const int64_t down = panels(a.count, tall), across = panels(n_, wide);
  const int64_t columns = std::min<int64_t>(wide, n_ - v * wide);
  const int64_t whole = columns == wide ? a.count / tall : 0, rest = down - whole;
  c += v * wide;
  float* edge = rest ? reinterpret_cast<float*>(room(scratch.edge, rest * tall * wide)) : nullptr;
  const char *x = a.packed, *b = packed_;
  for (int64_t k = 0; k < k_; k += kDepth) {
    const int64_t depth = std::min(kDepth, k_ - k), row_panel = depth * tall * 4;
    const char* column_panel = b + v * depth * wide * 4;
    if (whole) {
      HalfTiles job{depth, whole, 1, x, column_panel, c, ldc, add || k > 0};
      call(tiles, &job);
    }
    if (rest) {
      HalfTiles job{depth, rest, 1, x + whole * row_panel, column_panel, edge, wide, k > 0};
      call(tiles, &job);
    }
    x += down * row_panel;
    b += across * depth * wide * 4;
  }
  for (int64_t i = whole * tall; i < a.count; ++i) {
    const float* from = edge + (i - whole * tall) * wide;
    float* to = c + i * ldc;
    for (int64_t j = 0; j < columns; ++j) to[j] = add ? to[j] + from[j] : from[j];
  }
}

}  // namespace adjoint
