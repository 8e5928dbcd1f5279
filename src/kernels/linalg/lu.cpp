// LU factors of batches, and what is computed from them: systems, inverses, determinants. See
// linalg.h.
#include <cmath>

#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {

void lu(DType dtype, int64_t count, int64_t m, int64_t n, ConstPlace a, void* out, int* pivots,
        int* info) {
  if (m == n && is_small(dtype, n)) {
    share(count, cube(n), [&](int64_t begin, int64_t end) {
      small::loops(dtype).lu(static_cast<int>(n), a, {out, 1, n, n * n}, pivots, info, begin, end);
      return true;
    });
    return;
  }
  gather(dtype, count, m, n, a, out);
  with_element(dtype, [&]<class T>(T) {
    const int rows = size(m), cols = size(n);
    const int64_t k = std::min(m, n);
    share(count, static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
          [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
              info[i] = k ? lapack::getrf(rows, cols, static_cast<T*>(out) + i * m * n, leading(m),
                                          pivots + i * k)
                          : 0;
            return true;
          });
  });
}

void lu_solve(DType dtype, int64_t count, int64_t n, int64_t columns, Trans op, const void* lu,
              int64_t lu_step, const int* pivots, int64_t pivot_step, void* b) {
  if (n == 0 || columns == 0) return;
  const double work = static_cast<double>(n) * static_cast<double>(n) * double(columns);
  if (is_small(dtype, n)) {
    const Place x{b, 1, n, n * columns};
    const int m = size(columns);
    share(count, work, [&](int64_t begin, int64_t end) {
      small::loops(dtype).lu_solve(static_cast<int>(n), m, {lu, 1, n, lu_step}, pivots, pivot_step,
                                   x, x, op != Trans::No, begin, end);
      return true;
    });
    return;
  }
  with_element(dtype, [&]<class T>(T) {
    const int size_n = size(n), m = size(columns);
    share(count, 2 * work, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        lapack::getrs(static_cast<char>(op), size_n, m, static_cast<const T*>(lu) + k * lu_step,
                      leading(n), pivots + k * pivot_step, static_cast<T*>(b) + k * n * columns,
                      leading(n));
      return true;
    });
  });
}

void solve(DType dtype, int64_t count, int64_t n, int64_t columns, ConstPlace a, ConstPlace b,
           void* out, int* pivots, int* info, void* x) {
  if (is_small(dtype, n)) {
    const Place to{x, 1, n, n * columns};
    const int m = size(columns);
    share(count, cube(n) + double(n) * double(n) * double(columns),
          [&](int64_t begin, int64_t end) {
            small::loops(dtype).solve(static_cast<int>(n), m, a, b, {out, 1, n, n * n}, pivots,
                                      info, to, begin, end);
            return true;
          });
    return;
  }
  lu(dtype, count, n, n, a, out, pivots, info);
  gather(dtype, count, n, columns, b, x);
  lu_solve(dtype, count, n, columns, Trans::No, out, n * n, pivots, n, x);
}

namespace {

// Where the ones of a unit matrix lie, for all matrices of a batch.
template <class T>
struct Unit {
  T element[small::kLargest * small::kLargest] = {};
  Unit() {
    for (int i = 0; i < small::kLargest; ++i) element[i * (small::kLargest + 1)] = 1;
  }
};

// Runs of matrices that have an inverse are solved for the columns of the unit matrix, side by side.
template <class T>
void invert_small(DType dtype, int64_t count, int64_t n, T* a, const int* pivots, const int* info) {
  static const Unit<T> unit;
  const Place x{a, 1, n, n * n};
  const int order = size(n);
  share(count, cube(n), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t next = begin;
      while (next < end && info[next] == 0) ++next;
      if (next > begin)
        small::loops(dtype).lu_solve(order, order, x, pivots, n,
                                     {unit.element, small::kLargest, 1, 0}, x, false, begin, next);
      begin = next + 1;
    }
    return true;
  });
}

}  // namespace

void invert(DType dtype, int64_t count, int64_t n, void* a, const int* pivots, const int* info) {
  if (n == 0) return;
  if (is_small(dtype, n)) {
    if (dtype == DType::Float32)
      invert_small(dtype, count, n, static_cast<float*>(a), pivots, info);
    else
      invert_small(dtype, count, n, static_cast<double*>(a), pivots, info);
    return;
  }
  with_element(dtype, [&]<class T>(T) {
    const int size_n = size(n);
    T answer{};
    lapack::getri(size_n, static_cast<T*>(a), size_n, pivots, &answer, -1);
    const int lwork = asked(answer);
    share(count, 2 * cube(n), [&](int64_t begin, int64_t end) {
      Piece<T> memory(lwork);
      if (!allocate(memory)) return false;
      T* work = memory.data;
      for (int64_t k = begin; k < end; ++k) {
        if (info[k] == 0)
          lapack::getri(size_n, static_cast<T*>(a) + k * n * n, size_n, pivots + k * n, work,
                        lwork);
      }
      return true;
    });
  });
}

namespace {

// Each pivot that is not in its place exchanges two rows.
bool is_odd(int64_t n, const int* pivots) {
  bool odd = false;
  for (int64_t i = 0; i < n; ++i) odd ^= pivots[i] != i + 1;
  return odd;
}

}  // namespace

void determinants(DType dtype, int64_t count, int64_t n, const void* lu, const int* pivots,
                  void* det) {
  with_element(dtype, [&]<class T>(T) {
    for (int64_t k = 0; k < count; ++k) {
      const T* u = static_cast<const T*>(lu) + k * n * n;
      T product(is_odd(n, pivots + k * n) ? -1 : 1);
      for (int64_t i = 0; i < n; ++i) product *= u[i * n + i];
      static_cast<T*>(det)[k] = product;
    }
  });
}

void log_determinants(DType dtype, int64_t count, int64_t n, const void* lu, const int* pivots,
                      void* sign, void* log_size) {
  with_element(dtype, [&]<class T>(T) {
    using R = lapack::Real<T>;
    for (int64_t k = 0; k < count; ++k) {
      const T* u = static_cast<const T*>(lu) + k * n * n;
      T phase(is_odd(n, pivots + k * n) ? -1 : 1);
      R sum(0);
      for (int64_t i = 0; i < n; ++i) {
        const T d = u[i * n + i];
        const R length = std::abs(d);
        sum += std::log(length);
        phase *= length == 0 ? T(0) : d / length;
      }
      static_cast<T*>(sign)[k] = phase;
      static_cast<R*>(log_size)[k] = sum;
    }
  });
}

}  // namespace adjoint::linalg
