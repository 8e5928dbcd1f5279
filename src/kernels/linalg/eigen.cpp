// Eigenvalues and eigenvectors of batches. See linalg.h.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {
namespace {

// Rotations on lanes (small_matrices.h) win where lanes are filled, or the matrix is tiny.
bool rotates(DType dtype, int64_t count, int64_t n) {
  return is_small(dtype, n) && (count >= 4 || n <= 6);
}

// Rotations of what is not finite end in eigenvalues that are not: as LAPACK says it did not
// converge.
void note_failures(DType dtype, int64_t n, const void* w, int* info, int64_t begin, int64_t end) {
  with_element(dtype, [&]<class T>(T) {
    const auto* values = static_cast<const lapack::Real<T>*>(w);
    for (int64_t i = begin * n; i < end * n; ++i) {
      if (!(std::abs(values[i]) <= std::numeric_limits<lapack::Real<T>>::max())) {
        info[i / n] = static_cast<int>(std::max<int64_t>(n - 1, 1));
      }
    }
  });
}

}  // namespace

void eigh(DType dtype, int64_t count, int64_t n, bool upper, ConstPlace a, void* w, void* v,
          int* info) {
  if (n == 0) return std::fill(info, info + count, 0);
  if (rotates(dtype, count, n)) {
    const ConstPlace from = upper ? a.transposed() : a;
    share(count, 30 * cube(n), [&](int64_t begin, int64_t end) {
      small::loops(dtype).eigh(static_cast<int>(n), from, w, {v, 1, n, n * n}, info, begin, end);
      note_failures(dtype, n, w, info, begin, end);
      return true;
    });
    return;
  }
  with_element(dtype, [&]<class T>(T) {
    using R = lapack::Real<T>;
    const int order = size(n);
    const char job = v ? 'V' : 'N', triangle = upper ? 'U' : 'L';
    T answer{};
    R real_answer{};
    int int_answer = 0;
    lapack::heevd(job, triangle, order, static_cast<T*>(v), order, static_cast<R*>(w), &answer, -1,
                  &real_answer, -1, &int_answer, -1);
    const int lwork = asked(answer), lrwork = asked(real_answer);
    const int liwork = std::max(int_answer, 1);
    share(count, 9 * cube(n), [&](int64_t begin, int64_t end) {
      Piece<T> work(lwork), copy(v ? 0 : n * n);
      Piece<R> rwork(lrwork);
      Piece<int> iwork(liwork);
      if (!allocate(work, copy, rwork, iwork)) return false;
      for (int64_t k = begin; k < end; ++k) {
        T* one = v ? static_cast<T*>(v) + k * n * n : copy.data;
        copy_columns(n, n, static_cast<const T*>(a.data) + k * a.step, a.row, a.col, one);
        info[k] = lapack::heevd(job, triangle, order, one, order, static_cast<R*>(w) + k * n,
                                work.data, lwork, rwork.data, lrwork, iwork.data, liwork);
      }
      return true;
    });
  });
}

namespace {

// LAPACK gives real matrices their vectors in pairs of columns: real and imaginary part of the
// vector of an eigenvalue, whose conjugate belongs to the next.
template <class R>
void join_pairs(int64_t n, const R* im, const R* packed, std::complex<R>* v) {
  for (int64_t j = 0; j < n; ++j) {
    const R* column = packed + j * n;
    if (im[j] == 0 || j + 1 == n) {
      for (int64_t i = 0; i < n; ++i) v[j * n + i] = column[i];
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      v[j * n + i] = {column[i], column[n + i]};
      v[(j + 1) * n + i] = {column[i], -column[n + i]};
    }
    ++j;
  }
}

// False if there is no memory.
template <class T, class R = lapack::Real<T>>
bool eig_one(int64_t n, T* a, std::complex<R>* w, std::complex<R>* v, int& info) {
  const int order = size(n);
  const char job = v ? 'V' : 'N';
  T answer{};
  Piece<R> reals(2 * n);
  if constexpr (lapack::kComplex<T>) {
    R none{};
    lapack::geev(job, order, a, order, w, v, order, &answer, -1, &none);
    Piece<T> work(asked(answer));
    if (!allocate(reals, work)) return false;
    info = lapack::geev(job, order, a, order, w, v, order, work.data, asked(answer), reals.data);
  } else {
    lapack::geev(job, order, a, order, nullptr, nullptr, nullptr, order, &answer, -1);
    Piece<T> work(asked(answer)), packed(v ? n * n : 0);
    if (!allocate(reals, work, packed)) return false;
    R *re = reals.data, *im = re + n;
    info = lapack::geev(job, order, a, order, re, im, packed.data, order, work.data, asked(answer));
    for (int64_t i = 0; i < n; ++i) w[i] = {re[i], im[i]};
    if (v) join_pairs(n, im, packed.data, v);
  }
  return true;
}

}  // namespace

void eig(DType dtype, int64_t count, int64_t n, void* a, void* w, void* v, int* info) {
  if (n == 0) return std::fill(info, info + count, 0);
  with_element(dtype, [&]<class T>(T) {
    using Z = std::complex<lapack::Real<T>>;
    share(count, 25 * cube(n), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        Z* to = v ? static_cast<Z*>(v) + k * n * n : nullptr;
        if (!eig_one(n, static_cast<T*>(a) + k * n * n, static_cast<Z*>(w) + k * n, to, info[k]))
          return false;
      }
      return true;
    });
  });
}

}  // namespace adjoint::linalg
