// Read products.h first.
#include "kernels/sparse/products.h"

#include <algorithm>

#include "kernels/kernel.h"
#include "parallel/pool.h"

namespace adjoint::sparse {
namespace {

// --- dtypes without loops of their own ------------------------------------------------------------
template <class T>
void plain_multiply(char* const* p, int64_t) {
  const Rows& r = *reinterpret_cast<const Rows*>(p[0]);
  const T *values = reinterpret_cast<const T*>(r.values),
          *dense = reinterpret_cast<const T*>(r.dense);
  for (int64_t i = r.begin; i < r.end; ++i) {
    T* out = reinterpret_cast<T*>(r.out) + i * r.width;
    std::fill_n(out, r.width, T{});
    for (int64_t k = r.at.start[i]; k < r.at.start[i + 1]; ++k) {
      const T* row = dense + r.at.column[k] * r.width;
      for (int64_t j = 0; j < r.width; ++j) out[j] += values[k] * row[j];
    }
  }
}
template <class T>
void plain_transposed(char* const* p, int64_t) {
  const Rows& r = *reinterpret_cast<const Rows*>(p[0]);
  const T *values = reinterpret_cast<const T*>(r.values),
          *dense = reinterpret_cast<const T*>(r.dense);
  for (int64_t i = r.begin; i < r.end; ++i) {
    for (int64_t k = r.at.start[i]; k < r.at.start[i + 1]; ++k) {
      T* to = reinterpret_cast<T*>(r.out) + r.at.column[k] * r.width;
      for (int64_t j = r.left; j < r.right; ++j) to[j] += values[k] * dense[i * r.width + j];
    }
  }
}
template <class T>
void plain_sample(char* const* p, int64_t) {
  const Rows& r = *reinterpret_cast<const Rows*>(p[0]);
  const T *left = reinterpret_cast<const T*>(r.other), *right = reinterpret_cast<const T*>(r.dense);
  for (int64_t i = r.begin; i < r.end; ++i) {
    for (int64_t k = r.at.start[i]; k < r.at.start[i + 1]; ++k) {
      T sum{};
      for (int64_t j = 0; j < r.width; ++j)
        sum += left[i * r.width + j] * right[r.at.column[k] * r.width + j];
      reinterpret_cast<T*>(r.values)[k] = sum;
    }
  }
}

struct Loops {
  Loop multiply, transposed, sample;
};
template <class T>
constexpr Loops kPlain{plain_multiply<T>, plain_transposed<T>, plain_sample<T>};

Loops loops_of(DType dtype) {
  if (dtype == DType::Int64) return kPlain<uint64_t>;  // wraps around without undefined behaviour
  if (dtype == DType::Complex64) return kPlain<complex64_t>;
  if (dtype == DType::Complex128) return kPlain<complex128_t>;
  const int d = static_cast<int>(dtype);
  static const Kernel *multiply = find_kernel("sparse_multiply"),
                      *transposed = find_kernel("sparse_transposed"),
                      *sample = find_kernel("sparse_sample");
  return {multiply->loop[d], transposed->loop[d], sample->loop[d]};
}

// --- threads ----------------------------------------------------------------------------------------
constexpr int64_t kWork = 1 << 15;  // multiplications of a chunk, at least

// Rows of the pattern of about kWork multiplications: by the mean, so that chunks do not depend on threads.
int64_t grain(const Rows& r) {
  const int64_t each = r.at.entries() / std::max<int64_t>(r.at.rows, 1) + 1;
  return std::max<int64_t>(1, kWork / (each * std::max<int64_t>(r.width, 1)));
}

void over_rows(Loop loop, const Rows& r) {
  parallel::parallel_ranges(r.at.rows, grain(r), [&](int64_t begin, int64_t end) {
    Rows some = r;
    some.begin = begin;
    some.end = end;
    char* p[2] = {reinterpret_cast<char*>(&some), nullptr};
    loop(p, end - begin);
  });
}

}  // namespace

bool has_products(DType dtype) {
  return dtype == DType::Int64 || (dtype >= DType::Float16 && !is_half(dtype));
}

void multiply(DType dtype, Rows r) { over_rows(loops_of(dtype).multiply, r); }
void sample(DType dtype, Rows r) { over_rows(loops_of(dtype).sample, r); }

void transposed(DType dtype, Rows r) {
  // Rows of `out` are met in any order, so threads share the columns.
  constexpr int64_t kColumns = 32;
  const bool large = r.at.entries() * r.width >= kWork;
  parallel::parallel_ranges(r.width, large ? kColumns : r.width, [&](int64_t left, int64_t right) {
    Rows some = r;
    some.begin = 0;
    some.end = r.at.rows;
    some.left = left;
    some.right = right;
    char* p[2] = {reinterpret_cast<char*>(&some), nullptr};
    loops_of(dtype).transposed(p, r.at.rows);
  });
}

}  // namespace adjoint::sparse
