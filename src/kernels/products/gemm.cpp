// The driver of matrix products: which path a product takes, and its tiles. See gemm.h.
//
// Note [Tiles]
// BLAS results depend on how a product is cut (its kernels add in another order at an edge), so the
// cut depends on m, n and k only. Each call packs its inputs anew, hence few, large tiles: two
// for a product that is worth sharing, about eight for one of 1024, and more for huge ones. A batch
// of small products is shared product by product instead. Products by panels (panel_gemm.h) may be
// cut anywhere.
#include "kernels/products/gemm.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/products/blas.h"
#include "kernels/products/half_gemm.h"
#include "kernels/convert.h"
#include "kernels/products/packing.h"
#include "kernels/products/panel_gemm.h"
#include "kernels/products/small_products.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

constexpr double kShare = 0x1p21;        // operations that are worth a second thread
constexpr double kVectorShare = 0x1p21;  // ... of a matrix-vector product, bound by memory

struct Problem {
  DType dtype;
  int64_t m, n, k;
  Matrix a, b;
  char* c;
  int64_t ldc;
  Scale alpha, beta;

  double work() const {
    return 2.0 * double(m) * double(n) * double(k) * (is_complex(dtype) ? 4 : 1);
  }
  bool is_vector() const { return m == 1 || n == 1; }
  // Not worth sharing: the commonest case, decided with little arithmetic.
  bool is_small() const { return k > 0 && m <= 64 && n <= 64 && k <= 64; }
};

// What one thread needs: two packed inputs and sums of slices.
struct ThreadScratch {
  Scratch a, b, c;
  void drop_if_large() noexcept {
    a.drop_if_large();
    b.drop_if_large();
    c.drop_if_large();
  }
};
thread_local ThreadScratch scratch;

template <class T>
T scalar(Scale s) {
  if constexpr (std::is_same_v<T, complex64_t> || std::is_same_v<T, complex128_t>)
    return T(s);
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<int64_t>(s.real()));  // wraps, as the rest does
  else
    return static_cast<T>(s.real());
}

// ---- one tile

template <class T>
void blas_product(int m, int n, int k, const BlasOperand& a, const BlasOperand& b, T* c, int ldc,
                  T alpha, T beta) {
  const auto* pa = reinterpret_cast<const T*>(a.data);
  const auto* pb = reinterpret_cast<const T*>(b.data);
  const int lda = static_cast<int>(a.ld), ldb = static_cast<int>(b.ld);
  if (m != 1 && n != 1)
    return blas::gemm(a.trans, b.trans, m, n, k, alpha, pa, lda, pb, ldb, beta, c, ldc);
  // gemv scales by beta even if it is zero, which keeps NaN: clear the output instead.
  const int inc = n == 1 ? ldc : 1;
  if (beta == T(0)) {
    for (int64_t i = 0; i < int64_t{m} * n; ++i) c[i * inc] = T(0);
    beta = T(1);
  }
  if (n == 1)
    blas::gemv(a.trans, a.trans ? k : m, a.trans ? m : k, alpha, pa, lda, pb, b.trans ? 1 : ldb,
               beta, c, inc);
  else  // c = bT @ a
    blas::gemv(!b.trans, b.trans ? n : k, b.trans ? k : n, alpha, pb, ldb, pa, a.trans ? lda : 1,
               beta, c, inc);
}

struct Tile {
  int64_t row, col, rows, cols;
};

template <class T>
void tile_product(const Problem& p, const BlasOperand& a, const BlasOperand& b, const Tile& t) {
  const size_t item = sizeof(T);
  const BlasOperand ta{a.at(t.row, 0, item), a.ld, a.trans},
      tb{b.at(0, t.col, item), b.ld, b.trans};
  const auto c_item = static_cast<int64_t>(item_size(p.dtype));
  char* c = p.c + (t.row * p.ldc + t.col) * c_item;
  const T alpha = scalar<T>(p.alpha), beta = scalar<T>(p.beta);
  if constexpr (std::is_integral_v<T>) {
    integer_product(t.rows, t.cols, p.k, reinterpret_cast<const T*>(ta.data), ta.trans ? 1 : ta.ld,
                    ta.trans ? ta.ld : 1, reinterpret_cast<const T*>(tb.data), tb.ld,
                    reinterpret_cast<T*>(c), p.ldc, alpha, beta);
  } else {
    const int m = static_cast<int>(t.rows), n = static_cast<int>(t.cols), k = static_cast<int>(p.k);
    blas_product(m, n, k, ta, tb, reinterpret_cast<T*>(c), static_cast<int>(p.ldc), alpha, beta);
  }
}

// ---- whole products

OperandLayout layout_of_b(DType dtype) {
  return is_integral(dtype) ? OperandLayout::RowMajor : OperandLayout::Any;
}

// c = alpha * sum + beta * c over one row; `sum` is overwritten.
template <class T>
void store_row(const Problem& p, int64_t row, T* sum) {
  const auto item = static_cast<int64_t>(item_size(p.dtype));
  const DType compute = compute_dtype(p.dtype);
  char* out = p.c + row * p.ldc * item;
  const T alpha = scalar<T>(p.alpha), beta = scalar<T>(p.beta);
  for (int64_t j = 0; j < p.n; ++j) {
    if (alpha != T(1)) sum[j] = times(alpha, sum[j]);
    if (beta == T(0)) continue;
    T old;
    copy_run(reinterpret_cast<char*>(&old), 0, compute, out + j * item, 0, p.dtype, 1);
    sum[j] = plus(sum[j], times(beta, old));
  }
  copy_run(out, item, p.dtype, reinterpret_cast<const char*>(sum), sizeof(T), compute, p.n);
}

// beta * c, for products over no elements.
template <class T>
void scale_output(const Problem& p) {
  std::vector<T> zeros(static_cast<size_t>(p.n));
  for (int64_t i = 0; i < p.m; ++i) {
    std::fill(zeros.begin(), zeros.end(), T(0));
    store_row<T>(p, i, zeros.data());
  }
}

bool is_tiny(const Problem& p) {
  return p.m <= kTiny && p.n <= kTiny && p.k <= kTiny && !is_integral(p.dtype);
}

bool half_problem(const Problem& p, bool share) {
  return half_product(p.dtype, p.m, p.n, p.k, p.a, p.b, p.c, p.ldc, scalar<float>(p.alpha),
                      scalar<float>(p.beta), share);
}

bool takes_panels(const Problem& p) {
  return suits_panels(p.dtype, p.m, p.n, p.k, p.alpha, p.beta);
}

bool panel_problem(const Problem& p, bool share, const float* row = nullptr) {
  const BlasOperand a = prepare(p.dtype, p.a, p.m, p.k, OperandLayout::Any, scratch.a);
  if (!a.data) return false;
  const Matrix rows{a.data, a.trans ? 1 : a.ld, a.trans ? a.ld : 1};
  return panel_product(p.m, p.n, p.k, rows, p.b, reinterpret_cast<float*>(p.c), p.ldc,
                       p.beta != Scale(0.0), row, share);
}

// On the calling thread alone. False if there is no memory.
template <class T>
bool serial_product(const Problem& p) {
  if (is_half(p.dtype)) return half_problem(p, false);
  if (takes_panels(p)) return panel_problem(p, false);
  if constexpr (!std::is_integral_v<T>) {
    if (is_tiny(p)) {
      tiny_product(p.m, p.n, p.k, static_cast<const T*>(p.a.data), p.a.row_stride, p.a.col_stride,
                   static_cast<const T*>(p.b.data), p.b.row_stride, p.b.col_stride,
                   reinterpret_cast<T*>(p.c), p.ldc, scalar<T>(p.alpha), scalar<T>(p.beta));
      return true;
    }
    BlasOperand a, b;
    if (as_it_lies(p.a, p.m, p.k, a) && as_it_lies(p.b, p.k, p.n, b)) {
      blas_product(static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), a, b,
                   reinterpret_cast<T*>(p.c), static_cast<int>(p.ldc), scalar<T>(p.alpha),
                   scalar<T>(p.beta));
      return true;
    }
  }
  const BlasOperand a = prepare(p.dtype, p.a, p.m, p.k, OperandLayout::Any, scratch.a);
  const BlasOperand b = prepare(p.dtype, p.b, p.k, p.n, layout_of_b(p.dtype), scratch.b);
  if (!a.data || !b.data) return false;
  tile_product<T>(p, a, b, {0, 0, p.m, p.n});
  return true;
}

struct Tiles {
  int64_t rows, cols;
  int64_t down(const Problem& p) const { return (p.m - 1) / rows + 1; }
  int64_t across(const Problem& p) const { return (p.n - 1) / cols + 1; }
};

// Note [Tiles]. Columns are cut first: BLAS likes tall tiles better than wide ones.
Tiles plan(const Problem& p) {
  constexpr int64_t kSmallest = 64;  // and the granularity: whole vectors and micro-kernels
  Tiles t{p.m, p.n};
  double work = p.work();
  // Two tiles soon pay; more only when each stays large.
  const auto too_large = [&](int64_t count) {
    if (p.is_vector()) return work > kVectorShare;
    return work > (count == 1 ? kShare : 0x1p24 * double(count) * double(count));
  };
  for (int64_t count = 1; too_large(count); count *= 2, work /= 2) {
    int64_t& side = t.cols >= t.rows ? t.cols : t.rows;
    if (side <= kSmallest) break;
    side = (side / 2 + kSmallest - 1) / kSmallest * kSmallest;
  }
  return t;
}

template <class T>
void tiled_product(const Problem& p, const Tiles& tiles) {
  const BlasOperand a = prepare(p.dtype, p.a, p.m, p.k, OperandLayout::Any, scratch.a);
  const BlasOperand b = prepare(p.dtype, p.b, p.k, p.n, layout_of_b(p.dtype), scratch.b);
  const bool ok = a.data && b.data;
  const int64_t across = tiles.across(p);
  if (ok)
    parallel::parallel_for(tiles.down(p) * across, [&](int64_t i) {
      const int64_t row = i / across * tiles.rows, col = i % across * tiles.cols;
      const Tile tile{row, col, std::min(tiles.rows, p.m - row), std::min(tiles.cols, p.n - col)};
      tile_product<T>(p, a, b, tile);
    });
  scratch.drop_if_large();
  if (!ok) throw std::bad_alloc();
}

// Note [Slices]
// A small output over a long k (the gradient of a weight, over a large batch) has no tiles to
// share. Its k is cut instead, again by the problem's size only, and the partial products are added
// in order.
constexpr int64_t kSlice = 2048, kMostSlices = 64, kSlicedOutput = 128 * 128;

bool is_sliced(const Problem& p) {
  return p.k >= 4 * kSlice && p.m * p.n <= kSlicedOutput && !p.is_vector() && !is_integral(p.dtype);
}

template <class T>
void sliced_product(const Problem& p) {
  const BlasOperand a = prepare(p.dtype, p.a, p.m, p.k, OperandLayout::Any, scratch.a);
  const BlasOperand b = prepare(p.dtype, p.b, p.k, p.n, OperandLayout::Any, scratch.b);
  const int64_t length = std::max(kSlice, (p.k + kMostSlices - 1) / kMostSlices);
  const int64_t slices = (p.k + length - 1) / length, size = p.m * p.n;
  T* parts = reinterpret_cast<T*>(scratch.c.get(static_cast<size_t>(slices * size) * sizeof(T)));
  if (!a.data || !b.data || !parts) throw std::bad_alloc();
  parallel::parallel_for(slices, [&](int64_t s) {
    const int64_t first = s * length;
    const BlasOperand sa{a.at(0, first, sizeof(T)), a.ld, a.trans};
    const BlasOperand sb{b.at(first, 0, sizeof(T)), b.ld, b.trans};
    blas_product<T>(static_cast<int>(p.m), static_cast<int>(p.n),
                    static_cast<int>(std::min(length, p.k - first)), sa, sb, parts + s * size,
                    static_cast<int>(p.n), T(1), T(0));
  });
  for (int64_t s = 1; s < slices; ++s)
    for (int64_t i = 0; i < size; ++i) parts[i] += parts[s * size + i];
  for (int64_t i = 0; i < p.m; ++i) store_row<T>(p, i, parts + i * p.n);
  scratch.drop_if_large();
}

void check_extents(const Problem& p) {
  for (int64_t extent : {p.m, p.n, p.k, p.ldc})
    if (extent > INT_MAX)
      throw std::invalid_argument("matrix product of [" + std::to_string(p.m) + ", " +
                                  std::to_string(p.k) + "] and [" + std::to_string(p.k) + ", " +
                                  std::to_string(p.n) +
                                  "]: an axis is longer than 2147483647; split it");
}

// Products of one matrix with many vectors are one product of two matrices, whose rows are those of
// the batch: what per-sample gradients of a layer come down to.
struct OneProduct {
  bool found = false;
  Matrix a, b;
  int64_t n;
};
OneProduct as_one_product(int64_t batch, int64_t m, int64_t n, const Matrix& a,
                          int64_t a_batch_stride, const Matrix& b, int64_t b_batch_stride,
                          int64_t c_batch_stride, int64_t ldc) {
  if (batch <= 1 || batch > INT32_MAX) return {};
  if (n == 1 && a_batch_stride == 0 && ldc == 1 && c_batch_stride >= m)
    return {true, {b.data, b_batch_stride, b.row_stride}, {a.data, a.col_stride, a.row_stride}, m};
  if (m == 1 && b_batch_stride == 0 && c_batch_stride >= n)
    return {true, {a.data, a_batch_stride, a.col_stride}, b, n};
  return {};
}

}  // namespace

void gemm_batch(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, Matrix a,
                int64_t a_batch_stride, Matrix b, int64_t b_batch_stride, void* c,
                int64_t c_batch_stride, int64_t ldc, Scale alpha, Scale beta) {
  if (OneProduct one =
          as_one_product(batch, m, n, a, a_batch_stride, b, b_batch_stride, c_batch_stride, ldc);
      one.found)
    return gemm(dtype, batch, one.n, k, one.a, one.b, c, c_batch_stride, alpha, beta);
  const Problem first{dtype, m, n, k, a, b, static_cast<char*>(c), ldc, alpha, beta};
  if (batch == 0 || m == 0 || n == 0) return;
  check_extents(first);
  blas::use_one_thread();
  const auto item = static_cast<int64_t>(item_size(dtype));
  const auto nth = [&](int64_t i) {
    Problem p = first;
    p.a.data = static_cast<const char*>(a.data) + i * a_batch_stride * item;
    p.b.data = static_cast<const char*>(b.data) + i * b_batch_stride * item;
    p.c += i * c_batch_stride * item;
    return p;
  };
  with_compute_type(dtype, [&]<class T>(T) {
    if (k == 0) {
      for (int64_t i = 0; i < batch; ++i) scale_output<T>(nth(i));
      return;
    }
    if (is_half(dtype) && first.work() > kShare) {
      for (int64_t i = 0; i < batch; ++i)
        if (!half_problem(nth(i), true)) throw std::bad_alloc();
      return;
    }
    if constexpr (!std::is_integral_v<T>)
      if (!is_half(dtype) && is_sliced(first)) {
        for (int64_t i = 0; i < batch; ++i) sliced_product<T>(nth(i));
        return;
      }
    if (takes_panels(first) && first.work() > kShare) {
      for (int64_t i = 0; i < batch; ++i)
        if (!panel_problem(nth(i), true)) throw std::bad_alloc();
      scratch.drop_if_large();
      return;
    }
    const Tiles tiles = is_half(dtype) ? Tiles{m, n} : plan(first);
    if (tiles.rows < m || tiles.cols < n) {
      for (int64_t i = 0; i < batch; ++i) tiled_product<T>(nth(i), tiles);
      return;
    }
    const double several = 0x1p20 / first.work();  // small products make a chunk together
    const int64_t grain = several < 1 ? 1 : static_cast<int64_t>(std::min(several, 1e9));
    std::atomic<bool> ok = true;
    parallel::parallel_ranges(batch, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        if (!serial_product<T>(nth(i))) ok = false;
    });
    if (!ok) throw std::bad_alloc();
  });
}

void gemm(DType dtype, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, void* c, int64_t ldc,
          Scale alpha, Scale beta) {
  const Problem p{dtype, m, n, k, a, b, static_cast<char*>(c), ldc, alpha, beta};
  if (!p.is_small()) return gemm_batch(dtype, 1, m, n, k, a, 0, b, 0, c, 0, ldc, alpha, beta);
  if (m == 0 || n == 0) return;
  check_extents(p);
  blas::use_one_thread();
  with_compute_type(dtype, [&]<class T>(T) {
    if (!serial_product<T>(p)) throw std::bad_alloc();
  });
}

bool gemm_onto_row(DType dtype, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
                   const void* row, void* c, int64_t ldc) {
  const Problem p{dtype, m, n, k, a, b, static_cast<char*>(c), ldc, 1.0, 0.0};
  if (!takes_panels(p) || is_sliced(p)) return false;
  check_extents(p);
  if (!panel_problem(p, p.work() > kShare, static_cast<const float*>(row))) throw std::bad_alloc();
  scratch.drop_if_large();
  return true;
}

void gemv(DType dtype, int64_t m, int64_t k, Matrix a, const void* x, int64_t incx, void* y,
          int64_t incy, Scale alpha, Scale beta) {
  gemm(dtype, m, 1, k, a, {x, incx, 1}, y, incy, alpha, beta);
}

}  // namespace adjoint
