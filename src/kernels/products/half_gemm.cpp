// The driver of products of 16-bit floats. See half_gemm.h.
#include "kernels/products/half_gemm.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/convert.h"
#include "kernels/products/panel_tiles.h"
#include "kernels/products/packing.h"
#include "kernels/products/panels.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

// A block of c: its factors stay in the second cache, a panel of each in the first.
constexpr int64_t kBlockRows = 240, kBlockColumns = 240, kBlockDepth = 512;
// A thread that has all of c takes larger ones, since factors are packed once per block. Without pairs it
// takes narrow ones of as many rows, whose sums stay in the cache, and widens the rows of a once for all of them.
constexpr int64_t kLargeBlock = 528, kNarrowBlock = 96, kWidenedDepth = 2048;
constexpr int64_t kSlice = 2048, kMostSlices = 16;
constexpr double kShare = 0x1p21;  // operations that are worth a second thread

struct ThreadScratch {
  Scratch a, c;
};
thread_local ThreadScratch scratch;

void call(Loop loop, void* job) {
  char* const p[] = {static_cast<char*>(job)};
  loop(p, 1);
}

struct Product {
  DType dtype;
  int64_t m, n, k;
  Matrix a, b;
  char* c;
  int64_t ldc;
  float alpha, beta;

  double work() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }

  // c[row][column ...] = alpha * sums + beta * c, rounded; the sums are overwritten.
  void finish(int64_t row, int64_t column, float* sums, int64_t count, float* old) const {
    char* out = c + (row * ldc + column) * 2;
    if (beta != 0) {
      copy_run(reinterpret_cast<char*>(old), 4, DType::Float32, out, 2, dtype, count);
      for (int64_t j = 0; j < count; ++j) sums[j] = alpha * sums[j] + beta * old[j];
    } else if (alpha != 1) {
      for (int64_t j = 0; j < count; ++j) sums[j] *= alpha;
    }
    copy_run(out, 2, dtype, reinterpret_cast<const char*>(sums), 4, DType::Float32, count);
  }
};

// --- blocks --------------------------------------------------------------------------------------
class Blocks {
 public:
  Blocks(const Product& p, bool shared)
      : p_(p),
        shared_(shared),
        alone_(p.m <= kBlockRows && p.n <= kBlockColumns),
        pairs_(p.dtype == DType::BFloat16 && multiplies_pairs()),
        direct_(p.dtype == DType::Float16 && active_isa() == Isa::V4 && p.alpha == 1 &&
                p.beta == 0) {
    static const Kernel &tiles = *find_kernel("pair_tiles"), &pack = *find_kernel("panel_pack"),
                        &pairs = *find_kernel("half_pairs");
    tiles_ = pairs_ ? tiles.loop[static_cast<int>(DType::BFloat16)] : nullptr;
    pack_ = (pairs_ ? pairs : pack).loop[static_cast<int>(p.dtype)];
    // Equal shares rather than a small rest.
    const auto share = [](int64_t all, int64_t most, int64_t unit) {
      const int64_t parts = (all - 1) / most + 1;
      return ((all - 1) / parts / unit + 1) * unit;
    };
    rows_ = share(p.m, shared ? kBlockRows : kLargeBlock, panel_rows(active_isa()));
    columns_ = share(p.n,
                     shared || alone_ ? kBlockColumns
                     : pairs_         ? kLargeBlock
                                      : kNarrowBlock,
                     panel_columns(active_isa()));
  }

  bool run() const {
    if (alone_) return run_alone();
    const int64_t down = (p_.m - 1) / rows_ + 1, across = (p_.n - 1) / columns_ + 1;
    std::atomic<bool> ok = true;
    const auto block = [&](int64_t i) {
      const int64_t row = i / across * rows_, column = i % across * columns_;
      float* c = sums(1);
      const bool widened = !shared_ && column > 0 && p_.k <= kWidenedDepth;
      if (!c || !add_products(row, column, 0, p_.k, c, widened))
        ok = false;
      else if (!direct_)
        finish(row, column, c);
    };
    if (shared_)
      parallel::parallel_for(down * across, block);
    else
      for (int64_t i = 0; i < down * across; ++i) block(i);
    return ok;
  }

 private:
  // Lines [first, first + count) of a factor, over [k, k + depth), as panels of `width`, the last of whole
  // `unit`s.
  void pack(const Matrix& x, bool rows, int64_t first, int64_t count, int64_t k, int64_t depth,
            int width, int unit, char* to) const {
    PanelPack job;
    job.line_stride = rows ? x.row_stride : x.col_stride;
    job.step = rows ? x.col_stride : x.row_stride;
    job.count = depth;
    const int64_t steps = pairs_ ? (depth + 1) / 2 : depth;
    for (int64_t i = 0; i < count; i += width, to += steps * job.width * 4) {
      job.from =
          static_cast<const char*>(x.data) + ((first + i) * job.line_stride + k * job.step) * 2;
      job.lines = std::min<int64_t>(width, count - i);
      job.width = (job.lines + unit - 1) / unit * unit;
      job.to = to;
      call(pack_, &job);
    }
  }

  // A small block of results: what can be shared is k, in slices that depend on its length only.
  bool run_alone() const {
    const int64_t slices = std::clamp<int64_t>(p_.k / kSlice, 1, kMostSlices);
    float* c = sums(slices);
    if (!c) return false;
    std::atomic<bool> ok = true;
    const auto slice = [&](int64_t i) {
      const int64_t begin = p_.k * i / slices, end = p_.k * (i + 1) / slices;
      if (!add_products(0, 0, begin, end, c + i * size())) ok = false;
    };
    if (shared_)
      parallel::parallel_for(slices, slice);
    else
      for (int64_t i = 0; i < slices; ++i) slice(i);
    for (int64_t i = 1; i < slices; ++i)
      for (int64_t j = 0; j < size(); ++j) c[j] += c[i * size() + j];
    if (ok && !(direct_ && slices == 1)) finish(0, 0, c);
    return ok;
  }

  // Rows and columns of a block are whole panels, and one row more to work in.
  int64_t size() const { return (rows_ + 1) * columns_; }
  float* sums(int64_t blocks) const {
    return reinterpret_cast<float*>(scratch.c.get(static_cast<size_t>(blocks * size() * 4)));
  }

  // c = the products of a block over [begin, end); `widened`: the rows of a are there from the last block.
  bool add_products(int64_t row, int64_t column, int64_t begin, int64_t end, float* c,
                    bool widened = false) const {
    return pairs_ ? add_pairs(row, column, begin, end, c)
                  : add_widened(row, column, begin, end, c, widened);
  }

  bool add_pairs(int64_t row, int64_t column, int64_t begin, int64_t end, float* c) const {
    const int tall = panel_rows(active_isa()), wide = panel_columns(active_isa());
    const int64_t m = std::min(rows_, p_.m - row), n = std::min(columns_, p_.n - column);
    const int64_t row_panels = (m - 1) / tall + 1, column_panels = (n - 1) / wide + 1;
    const int64_t depth = std::min(kBlockDepth, end - begin);
    char* a = scratch.a.get(static_cast<size_t>(row_panels * tall * depth * 4));
    char* b = panels::columns_scratch().get(static_cast<size_t>(column_panels * wide * depth * 4));
    if (!a || !b) return false;
    for (int64_t k = begin; k < end; k += depth) {
      const int64_t some = std::min(depth, end - k);
      pack(p_.a, true, row, m, k, some, tall, tall, a);
      pack(p_.b, false, column, n, k, some, wide, wide, b);
      PairTiles job{(some + 1) / 2, row_panels, column_panels, a, b, c, columns_, k > begin};
      call(tiles_, &job);
    }
    return true;
  }

  // Rows of a as float32 in the order in which they lie, columns of b as panels.
  bool add_widened(int64_t row, int64_t column, int64_t begin, int64_t end, float* c,
                   bool widened) const {
    const int wide = panel_columns(active_isa()), lanes = wide / kTileVectors;
    const int64_t m = std::min(rows_, p_.m - row), n = std::min(columns_, p_.n - column);
    const int64_t depth = std::min(kWidenedDepth, end - begin), part = std::min(depth, kBlockDepth);
    char* a = scratch.a.get(static_cast<size_t>(m * depth * 4));
    char* b =
        panels::columns_scratch().get(static_cast<size_t>(panels::size_of_columns(n, part) * 4));
    if (!a || !b) return false;
    for (int64_t k = begin; k < end; k += depth) {
      const int64_t some = std::min(depth, end - k);
      const bool down = p_.a.row_stride == 1;  // columns of a lie together
      if (!widened) widen(row, m, k, some, down, a);
      const Matrix wider{a, down ? 1 : some, down ? m : 1};
      for (int64_t i = 0; i < some; i += part) {
        const int64_t steps = std::min(part, some - i);
        half_t* out = nullptr;
        if (direct_ && k + i + steps == p_.k && begin == 0)
          out = reinterpret_cast<half_t*>(p_.c) + row * p_.ldc + column;
        pack(p_.b, false, column, n, k + i, steps, wide, lanes, b);
        if (!panels::multiply(panels::part(wider, 0, i), m, reinterpret_cast<const float*>(b), n,
                              steps, {c, columns_, k + i > begin, nullptr, out, p_.ldc}))
          return false;
      }
    }
    return true;
  }

  void widen(int64_t row, int64_t m, int64_t k, int64_t depth, bool down, char* to) const {
    const Matrix& a = p_.a;
    const auto* from =
        static_cast<const char*>(a.data) + (row * a.row_stride + k * a.col_stride) * 2;
    const int64_t lines = down ? depth : m, length = down ? m : depth;
    const int64_t between = down ? a.col_stride : a.row_stride;
    for (int64_t i = 0; i < lines; ++i)
      copy_run(to + i * length * 4, 4, DType::Float32, from + i * between * 2,
               (down ? a.row_stride : a.col_stride) * 2, p_.dtype, length);
  }

  void finish(int64_t row, int64_t column, float* c) const {
    const int64_t m = std::min(rows_, p_.m - row), n = std::min(columns_, p_.n - column);
    for (int64_t i = 0; i < m; ++i)
      p_.finish(row + i, column, c + i * columns_, n, c + rows_ * columns_);
  }

  const Product& p_;
  const bool shared_, alone_, pairs_;
  const bool direct_;  // the tiles write the results of a whole k
  Loop tiles_, pack_;
  int64_t rows_, columns_;
};

// --- one vector ----------------------------------------------------------------------------------
// c, of one row or one column, from a matrix whose elements lie together along one axis.
bool vector_product(const Product& p, bool shared) {
  const bool row = p.m == 1;  // x @ b, else a @ x
  const Matrix& matrix = row ? p.b : p.a;
  const Matrix& vector = row ? p.a : p.b;
  const int64_t along_k = row ? matrix.row_stride : matrix.col_stride;
  const int64_t along_out = row ? matrix.col_stride : matrix.row_stride;
  const int64_t outputs = row ? p.n : p.m;
  const bool dots = along_k == 1;
  char* x = scratch.a.get(static_cast<size_t>(p.k) * 4);
  float* sums = reinterpret_cast<float*>(scratch.c.get(static_cast<size_t>(outputs) * 8));
  if (!x || !sums) return false;
  copy_run(x, 4, DType::Float32, static_cast<const char*>(vector.data),
           (row ? vector.col_stride : vector.row_stride) * 2, p.dtype, p.k);
  static const Kernel &dot = *find_kernel("half_dots"), &axpy = *find_kernel("half_axpy");
  const Loop loop = (dots ? dot : axpy).loop[static_cast<int>(p.dtype)];
  const auto part = [&](int64_t begin, int64_t end) {
    HalfVector job;
    job.rows = static_cast<const char*>(matrix.data) + begin * along_out * 2;
    job.stride = dots ? along_out : along_k;
    job.length = dots ? p.k : end - begin;
    job.count = dots ? end - begin : p.k;
    job.x = reinterpret_cast<const float*>(x);
    job.out = sums + begin;
    if (!dots) std::fill(sums + begin, sums + end, 0.0f);
    call(loop, &job);
  };
  if (shared && p.work() > kShare)
    parallel::parallel_ranges(outputs, std::max<int64_t>(64, outputs / 16), part);
  else
    part(0, outputs);
  if (row || p.ldc == 1) {
    p.finish(0, 0, sums, outputs, sums + outputs);
  } else {
    for (int64_t i = 0; i < outputs; ++i) p.finish(i, 0, sums + i, 1, sums + outputs);
  }
  return true;
}

bool is_vector(const Product& p) {
  if (p.m != 1 && p.n != 1) return false;
  const Matrix& matrix = p.m == 1 ? p.b : p.a;
  return matrix.row_stride == 1 || matrix.col_stride == 1;
}

}  // namespace

bool multiplies_pairs() {
#if defined(__x86_64__)
  static const bool there =
      active_isa() == Isa::V4 && (__builtin_cpu_init(), __builtin_cpu_supports("avx512bf16"));
  return there;
#else
  return false;
#endif
}

bool half_product(DType dtype, int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b,
                  char* c, int64_t ldc, float alpha, float beta, bool share) {
  const Product p{dtype, m, n, k, a, b, c, ldc, alpha, beta};
  if (is_vector(p)) return vector_product(p, share);
  return Blocks(p, share && p.work() > kShare && parallel::get_num_threads() > 1).run();
}

}  // namespace adjoint
