// Dot products: blocks of fixed length, whose sums are added in order. See gemm.h.
#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>

#include "kernels/products/blas.h"
#include "kernels/convert.h"
#include "kernels/products/gemm.h"
#include "kernels/products/packing.h"
#include "kernels/products/small_products.h"
#include "parallel/pool.h"

namespace adjoint {
namespace {

constexpr int64_t kBlock = 16384;

// A block as contiguous elements of the compute dtype: where it lies if it is, else copied.
template <class T>
const T* contiguous(DType dtype, const char* data, int64_t inc, int64_t n, Scratch& scratch) {
  const auto item = static_cast<int64_t>(item_size(dtype));
  if (inc == 1 && !is_half(dtype)) return reinterpret_cast<const T*>(data);
  char* packed = scratch.get(static_cast<size_t>(n) * sizeof(T));
  if (packed) copy_run(packed, sizeof(T), compute_dtype(dtype), data, inc * item, dtype, n);
  return reinterpret_cast<const T*>(packed);
}

template <class T>
T block_sum(int64_t n, const T* x, const T* y) {
  if constexpr (std::is_integral_v<T>) {
    Wrapping<T> sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += Wrapping<T>(x[i]) * Wrapping<T>(y[i]);
    return static_cast<T>(sum);
  } else {
    return blas::dot(static_cast<int>(n), x, y);
  }
}

// Sums of blocks are added in double precision, which costs nothing here.
template <class T>
struct Total {
  using type = double;
};
template <class T>
struct Total<std::complex<T>> {
  using type = std::complex<double>;
};
template <class T>
  requires std::is_integral_v<T>
struct Total<T> {
  using type = Wrapping<T>;
};

template <class T>
T sum_of_products(DType dtype, int64_t n, const char* x, int64_t incx, const char* y,
                  int64_t incy) {
  const auto item = static_cast<int64_t>(item_size(dtype));
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  T one{};
  const std::unique_ptr<T[]> several(blocks > 1 ? new T[static_cast<size_t>(blocks)] : nullptr);
  T* sums = several ? several.get() : &one;
  std::atomic<bool> ok = true;
  // Four blocks a chunk: below about 64k elements sharing costs more than it gains.
  parallel::parallel_ranges(blocks, 4, [&](int64_t begin, int64_t end) {
    static thread_local Scratch sx, sy;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * kBlock, length = std::min(kBlock, n - first);
      const T* px = contiguous<T>(dtype, x + first * incx * item, incx, length, sx);
      const T* py = contiguous<T>(dtype, y + first * incy * item, incy, length, sy);
      if (px && py)
        sums[i] = block_sum(length, px, py);
      else
        ok = false;
    }
  });
  if (!ok) throw std::bad_alloc();
  if (blocks <= 1) return one;
  typename Total<T>::type total{};
  for (int64_t i = 0; i < blocks; ++i) total += static_cast<typename Total<T>::type>(sums[i]);
  return static_cast<T>(total);
}

}  // namespace

void dot(DType dtype, int64_t n, const void* x, int64_t incx, const void* y, int64_t incy,
         void* out) {
  blas::use_one_thread();
  const auto run = [&]<class T>(T) {
    const T sum = sum_of_products<T>(dtype, n, static_cast<const char*>(x), incx,
                                     static_cast<const char*>(y), incy);
    copy_run(static_cast<char*>(out), 0, dtype, reinterpret_cast<const char*>(&sum), 0,
             compute_dtype(dtype), 1);
  };
  with_compute_type(dtype, run);
}

}  // namespace adjoint
