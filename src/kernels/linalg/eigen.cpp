// Eigenvalues and eigenvectors of batches. See linalg.h.
#include <cstring>

#include "kernels/linalg/matrix_batches.h"

namespace adjoint::linalg {
namespace {

// Rotations on lanes (small_matrices.h) win where lanes are filled, or the matrix is tiny.
bool rotates(DType dtype, int64_t count, int64_t n) {
  return is_small(dtype, n) && (count >= 4 || n <= 6);
}

}  // namespace

void eigh(DType dtype, int64_t count, int64_t n, bool upper, ConstPlace a, void* w, void* v,
          int* info) {
  if (n == 0) return std::fill(info, info + count, 0);
  if (rotates(dtype, count, n)) {
    const ConstPlace from = upper ? a.transposed() : a;
    share(count, 30 * cube(n), [&](int64_t begin, int64_t end) {
      small::loops(dtype).eigh(static_cast<int>(n), from, w, {v, 1, n, n * n}, info, begin, end);
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
      static thread_local Memory<T> memory, matrix;
      static thread_local Memory<R> real_memory;
      static thread_local Memory<int> int_memory;
      T* work = memory.get(lwork);
      T* copy = v ? nullptr : matrix.get(n * n);
      R* rwork = real_memory.get(lrwork);
      int* iwork = int_memory.get(liwork);
      if (!work || (!v && !copy) || !rwork || !iwork) return false;
      for (int64_t k = begin; k < end; ++k) {
        T* one = v ? static_cast<T*>(v) + k * n * n : copy;
        copy_columns(n, n, static_cast<const T*>(a.data) + k * a.step, a.row, a.col, one);
        info[k] = lapack::heevd(job, triangle, order, one, order, static_cast<R*>(w) + k * n, work,
                                lwork, rwork, lrwork, iwork, liwork);
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

template <class T>
struct Eig {
  using R = lapack::Real<T>;
  using Z = std::complex<R>;
  Memory<T> work, vectors;
  Memory<R> reals;

  // False if there is no memory.
  bool run(int64_t n, T* a, Z* w, Z* v, int& info) {
    const int order = size(n);
    const char job = v ? 'V' : 'N';
    T answer{};
    if constexpr (lapack::kComplex<T>) {
      R* rwork = reals.get(2 * n);
      if (!rwork) return false;
      lapack::geev(job, order, a, order, w, v, order, &answer, -1, rwork);
      const int lwork = asked(answer);
      T* memory = work.get(lwork);
      if (!memory) return false;
      info = lapack::geev(job, order, a, order, w, v, order, memory, lwork, rwork);
    } else {
      R* parts = reals.get(2 * n);
      T* packed = v ? vectors.get(n * n) : nullptr;
      if (!parts || (v && !packed)) return false;
      lapack::geev(job, order, a, order, parts, parts + n, packed, order, &answer, -1);
      const int lwork = asked(answer);
      T* memory = work.get(lwork);
      if (!memory) return false;
      info = lapack::geev(job, order, a, order, parts, parts + n, packed, order, memory, lwork);
      for (int64_t i = 0; i < n; ++i) w[i] = {parts[i], parts[n + i]};
      if (v) join_pairs(n, parts + n, packed, v);
    }
    return true;
  }
};

}  // namespace

void eig(DType dtype, int64_t count, int64_t n, void* a, void* w, void* v, int* info) {
  if (n == 0) return std::fill(info, info + count, 0);
  with_element(dtype, [&]<class T>(T) {
    using Z = std::complex<lapack::Real<T>>;
    share(count, 25 * cube(n), [&](int64_t begin, int64_t end) {
      static thread_local Eig<T> one;
      for (int64_t k = begin; k < end; ++k) {
        Z* to = v ? static_cast<Z*>(v) + k * n * n : nullptr;
        if (!one.run(n, static_cast<T*>(a) + k * n * n, static_cast<Z*>(w) + k * n, to, info[k]))
          return false;
      }
      return true;
    });
  });
}

}  // namespace adjoint::linalg
