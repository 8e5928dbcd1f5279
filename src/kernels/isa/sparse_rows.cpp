// Loops of products with sparse matrices. Read kernels/sparse/products.h first.
#include "kernels/isa/row_vectors.h"
#include "kernels/sparse/products.h"

namespace adjoint {
namespace ADJOINT_ISA_TAG {
namespace {

using sparse::Rows;

template <class T>
ADJOINT_INLINE const Rows& rows_at(char* const* p) {
  return *reinterpret_cast<const Rows*>(p[0]);
}

// N whole vectors of a row of `out`, from column j on: they stay in registers over the entries.
template <class T, int N>
ADJOINT_INLINE void sum_rows(const Rows& r, int64_t i, int64_t j) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  const T *values = reinterpret_cast<const T*>(r.values),
          *dense = reinterpret_cast<const T*>(r.dense) + j;
  V sum[N] = {};
  for (int64_t k = r.at.start[i]; k < r.at.start[i + 1]; ++k) {
    const T* row = dense + r.at.column[k] * r.width;
    const V v = splat<V>(values[k]);
    for (int n = 0; n < N; ++n) sum[n] += v * load<T, V>(row + n * W);
  }
  T* out = reinterpret_cast<T*>(r.out) + i * r.width + j;
  for (int n = 0; n < N; ++n) store<T, V>(out + n * W, sum[n]);
}

// The columns that are left, fewer than a vector has lanes.
template <class T>
ADJOINT_INLINE void sum_part(const Rows& r, int64_t i, int64_t j, int64_t count) {
  using V = VecOf<T>;
  const T *values = reinterpret_cast<const T*>(r.values),
          *dense = reinterpret_cast<const T*>(r.dense) + j;
  V sum{};
  for (int64_t k = r.at.start[i]; k < r.at.start[i + 1]; ++k)
    sum += splat<V>(values[k]) * load_part<T, V>(dense + r.at.column[k] * r.width, count);
  store_part<T, V>(reinterpret_cast<T*>(r.out) + i * r.width + j, sum, count);
}

// A matrix times a vector: four sums, so that no addition waits for the one before.
template <class T>
void multiply_vector(const Rows& r) {
  const T *values = reinterpret_cast<const T*>(r.values), *x = reinterpret_cast<const T*>(r.dense);
  T* out = reinterpret_cast<T*>(r.out);
  const int64_t* column = r.at.column;
  for (int64_t i = r.begin; i < r.end; ++i) {
    int64_t k = r.at.start[i];
    const int64_t end = r.at.start[i + 1];
    T a = 0, b = 0, c = 0, d = 0;
    for (; k + 4 <= end; k += 4) {
      a += values[k] * x[column[k]];
      b += values[k + 1] * x[column[k + 1]];
      c += values[k + 2] * x[column[k + 2]];
      d += values[k + 3] * x[column[k + 3]];
    }
    for (; k < end; ++k) a += values[k] * x[column[k]];
    out[i] = (a + b) + (c + d);
  }
}

template <class T>
void sparse_multiply(char* const* p, int64_t) {
  constexpr int W = kLanes<VecOf<T>>;
  const Rows& r = rows_at<T>(p);
  if (r.width == 1) return multiply_vector<T>(r);
  for (int64_t i = r.begin; i < r.end; ++i) {
    int64_t j = 0;
    for (; j + 8 * W <= r.width; j += 8 * W) sum_rows<T, 8>(r, i, j);
    for (; j + 4 * W <= r.width; j += 4 * W) sum_rows<T, 4>(r, i, j);
    for (; j + 2 * W <= r.width; j += 2 * W) sum_rows<T, 2>(r, i, j);
    for (; j + W <= r.width; j += W) sum_rows<T, 1>(r, i, j);
    if (j < r.width) sum_part<T>(r, i, j, r.width - j);
  }
}

template <class T>
void sparse_transposed(char* const* p, int64_t) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  const Rows& r = rows_at<T>(p);
  const T *values = reinterpret_cast<const T*>(r.values),
          *dense = reinterpret_cast<const T*>(r.dense);
  T* out = reinterpret_cast<T*>(r.out);
  for (int64_t i = r.begin; i < r.end; ++i) {
    const T* from = dense + i * r.width;
    for (int64_t k = r.at.start[i]; k < r.at.start[i + 1]; ++k) {
      T* to = out + r.at.column[k] * r.width;
      if (r.width == 1) {
        *to += values[k] * *from;
        continue;
      }
      const V v = splat<V>(values[k]);
      int64_t j = r.left;
      for (; j + W <= r.right; j += W)
        store<T, V>(to + j, load<T, V>(to + j) + v * load<T, V>(from + j));
      if (const int64_t rest = r.right - j; rest > 0)
        store_part<T, V>(to + j,
                         load_part<T, V>(to + j, rest) + v * load_part<T, V>(from + j, rest), rest);
    }
  }
}

template <class T>
void sparse_sample(char* const* p, int64_t) {
  using V = VecOf<T>;
  constexpr int W = kLanes<V>;
  const Rows& r = rows_at<T>(p);
  T* values = reinterpret_cast<T*>(r.values);
  const T *left = reinterpret_cast<const T*>(r.other), *right = reinterpret_cast<const T*>(r.dense);
  for (int64_t i = r.begin; i < r.end; ++i) {
    const T* a = left + i * r.width;
    for (int64_t k = r.at.start[i]; k < r.at.start[i + 1]; ++k) {
      const T* b = right + r.at.column[k] * r.width;
      if (r.width == 1) {
        values[k] = *a * *b;
        continue;
      }
      V sum{}, second{};
      int64_t j = 0;
      for (; j + 2 * W <= r.width; j += 2 * W) {
        sum += load<T, V>(a + j) * load<T, V>(b + j);
        second += load<T, V>(a + j + W) * load<T, V>(b + j + W);
      }
      for (; j + W <= r.width; j += W) sum += load<T, V>(a + j) * load<T, V>(b + j);
      if (const int64_t rest = r.width - j; rest > 0)
        second += first_lanes<V>(rest) ? load_part<T, V>(a + j, rest) * load_part<T, V>(b + j, rest)
                                       : V{};
      values[k] = sum_of_lanes(sum + second);
    }
  }
}

ROW_KERNEL(sparse_multiply, 1)
ROW_KERNEL(sparse_transposed, 1)
ROW_KERNEL(sparse_sample, 1)

}  // namespace
}  // namespace ADJOINT_ISA_TAG
}  // namespace adjoint
